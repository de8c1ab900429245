"""The options that verbs share, and the exit codes of errors and interruptions."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import typer

from jobs.choices import Format
from jobs.cli.terminal import complain
from jobs.scan.interruption import dropped_interruptions_raised
from survey.errors import DownloadError, QueryError, SurveyError

#: Exit code of a scan in which some jobs failed.
SOME_FAILED = 1

#: Exit code after Ctrl-C or a termination signal.
INTERRUPTED = 130

#: DuckDB's message where a signal ends a statement.
_INTERRUPTED_STATEMENT = "Query interrupted"

DEFAULT_HOME = Path("survey-home")


@dataclass(frozen=True, slots=True)
class SharedOptions:
    """Options given before the verb; those given after it win."""

    home: Path | None = None
    format: Format | None = None


def is_given(context: typer.Context, name: str) -> bool:
    """Return whether a parameter was given, by the command line or the environment."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def home_of(path: str) -> Path:
    """Return the path of a home; an empty one, as of an unset variable, is not the current folder.

    Raises
    ------
    typer.BadParameter
        If it is empty.
    """
    if not str(path):
        raise typer.BadParameter("the path is empty, must be a directory; . is the current one.")
    return Path(path)


def _resolve_home(context: typer.Context, home: Path) -> Path:
    shared: SharedOptions = context.obj
    return home if is_given(context, "home") else shared.home or home


def _resolve_format(context: typer.Context, format: Format) -> Format:  # noqa: A002
    """Return the chosen format; refuse one that standard output cannot take before any work."""
    chosen = _chosen_format(context, format)
    if chosen == "parquet" and not context.params.get("output") and sys.stdout.isatty():
        other = "add --output FILE, or " if "output" in context.params else ""
        raise typer.BadParameter(
            f"Parquet is binary and standard output is a terminal: {other}redirect: > FILE."
        )
    return chosen


def _chosen_format(context: typer.Context, format: Format) -> Format:  # noqa: A002
    """Return the format given after the verb, before it, or by the ending of ``--output``."""
    named = format if is_given(context, "format") else None
    asked = one_format(named, json=context.params.get("json", False))
    shared: SharedOptions = context.obj
    output: Path | None = context.params.get("output")
    ending = output.suffix.removeprefix(".").lower() if output else ""
    implied = next((known for known in get_args(Format) if known == ending), None)
    if not (asked or shared.format or implied) and ending not in ("", "txt"):
        known = ", ".join(f".{each}" for each in get_args(Format) if each != "table")
        raise typer.BadParameter(
            f"{output} has an ending of no format; known: {known} and .txt. --format names one.",
            param_hint="'--output'",
        )
    return asked or shared.format or implied or format


def one_format(format: Format | None, *, json: bool) -> Format | None:  # noqa: A002
    """Return the format that was given by its name or by ``--json``; refuse two."""
    if json and format not in (None, "json"):
        raise typer.BadParameter(f"--json excludes --format {format}.")
    return "json" if json else format


def _resolve_output(output: Path | None) -> Path | None:
    """Return the file of the table, None for standard output; refuse before any work."""
    if output in (None, Path("-")):
        return None
    if output.is_dir() or not output.parent.is_dir():
        raise typer.BadParameter(f"{output} must be a file in a directory that exists.")
    return output


HOME_HELP = "Directory with all measurements, jobs and downloaded files."
FORMAT_HELP = "Format of the table."
JSON_HELP = "Short for --format json."

HomeOption = Annotated[
    Path,
    typer.Option("--home", parser=home_of, callback=_resolve_home, help=HOME_HELP, metavar="PATH"),
]
#: The variable with the registry of new homes.
REGISTRY = "SURVEY_REGISTRY"

RegistryOption = Annotated[
    str | None,
    typer.Option(
        "--registry",
        envvar=REGISTRY,
        metavar="URL",
        show_default="a file in the home",
        help="Database on PostgreSQL for the jobs and schedules of a new home, such as"
        " postgresql://USER@HOST/DATABASE; the home remembers it.",
    ),
]
AllRunsOption = Annotated[
    bool,
    typer.Option("--all-runs", help="Older runs of the same models too, not only the newest."),
]
FormatOption = Annotated[
    Format, typer.Option("--format", callback=_resolve_format, help=FORMAT_HELP)
]
# The format depends on these two, so they are read before it.
JsonOption = Annotated[bool, typer.Option("--json", is_eager=True, help=JSON_HELP)]
OutputOption = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        is_eager=True,
        callback=_resolve_output,
        help="File for the table; - is standard output.",
        show_default="standard output",
    ),
]


def verb(
    function: Callable[..., None], interrupted: str = "run the same command again to go on"
) -> Callable[..., None]:
    """Return a function as a command: errors become messages, dataclass parameters options.

    Parameters
    ----------
    function : callable
        What the command does. A parameter whose default is made by
        ``analysis.option_fields.option`` is an option; one annotated with a dataclass takes one
        that is made from options, one for each of its fields.
    interrupted : str
        What to do after an interruption.
    """
    parameters = inspect.signature(function, eval_str=True).parameters
    groups = {
        name: each.annotation
        for name, each in parameters.items()
        if inspect.isclass(each.annotation) and dataclasses.is_dataclass(each.annotation)
    }
    options = {name: options_of(group) for name, group in groups.items()}

    @functools.wraps(function)
    def run(**given: Any) -> None:
        with _exit_codes(interrupted):
            made = {
                name: group(**{option: given.pop(option) for option in options[name]})
                for name, group in groups.items()
            }
            function(**given, **made)

    shown: dict[str, inspect.Parameter] = {}
    for name, each in parameters.items():
        shown |= options.get(name, {name: _parameter(name, each.annotation, each.default)})
    run.__annotations__ = {name: each.annotation for name, each in shown.items()}
    vars(run)["__signature__"] = inspect.Signature(list(shown.values()))
    return run


def options_of(group: type) -> dict[str, inspect.Parameter]:
    """Return the parameters of the options that a dataclass's fields declare.

    The annotation of a field is that of an option, or the field was made by
    ``analysis.option_fields.option``; other fields are no options.
    """
    hints = get_type_hints(group, include_extras=True)
    return {
        each.name: _parameter(each.name, hints[each.name], each)
        for each in dataclasses.fields(group)
        if get_origin(hints[each.name]) is Annotated or "help" in each.metadata
    }


def _parameter(name: str, hint: Any, default: Any) -> inspect.Parameter:
    """Return a parameter as typer takes it; a default made by ``option`` becomes an option."""
    if isinstance(default, dataclasses.Field):
        if "help" in default.metadata:
            hint = _annotation(name, hint, default)
        default = None if default.metadata.get("repeated") else default.default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=hint)


def _annotation(name: str, hint: Any, field: dataclasses.Field[Any]) -> Any:
    """Return the annotated type of an option, as typer takes it."""
    details, name = field.metadata, "--" + name.replace("_", "-")
    # A flag that is on by default can be switched off; no other needs a second name.
    names = details["flags"] or [f"{name}/--no-{name[2:]}" if field.default is True else name]
    facts = {"help": details["help"], "metavar": details["metavar"]}
    if details["positional"]:
        return Annotated[hint, typer.Argument(**facts, show_default=False)]
    shown, bounds = details["none"] or True, (details["minimum"], details["maximum"])
    kind = list[str] | None if details["repeated"] else hint
    facts |= {"show_default": shown, "min": bounds[0], "max": bounds[1]}
    return Annotated[kind, typer.Option(*names, **facts)]


@contextmanager
def _exit_codes(interrupted: str) -> Iterator[None]:
    """Turn errors and interruptions into messages and exit codes."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with dropped_interruptions_raised():
            yield
    except SurveyError as error:
        complain(error.message, error.hint, lines=isinstance(error, QueryError | DownloadError))
        raise typer.Exit(error.exit_code) from None
    except BrokenPipeError:
        # The reader of our output has gone, as in `survey sql ... | head`.
        sys.stderr.close()
        raise typer.Exit(0) from None
    except OSError as error:
        # Such as a path longer than the file system takes; what we expect is explained above.
        complain(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), None)
        raise typer.Exit(SurveyError.exit_code) from None
    except (KeyboardInterrupt, RuntimeError) as error:
        # DuckDB puts an error of its own in the place of the interruption that ended its statement.
        if isinstance(error, RuntimeError) and str(error) != _INTERRUPTED_STATEMENT:
            raise
        complain("interrupted", interrupted)
        raise typer.Exit(INTERRUPTED) from None
