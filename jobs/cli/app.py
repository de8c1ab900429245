"""The typer application, the options every verb shares, and how errors leave the process."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, ParamSpec, get_args

import typer

from jobs.choices import Format
from survey import __version__
from survey.errors import SurveyError

#: Exit code of a scan in which some jobs failed.
SOME_FAILED = 1

#: Exit code after Ctrl-C or a termination signal.
INTERRUPTED = 130

DEFAULT_HOME = Path("survey-home")

_HOME_HELP = "Directory that holds all state.  [default: survey-home]"

HomeOption = Annotated[Path | None, typer.Option("--home", help=_HOME_HELP, show_default=False)]

#: Only before the verb is the environment asked: there it loses to an option in either place.
FirstHomeOption = Annotated[
    Path | None,
    typer.Option("--home", help=_HOME_HELP, envvar="SURVEY_HOME", show_default=False),
]
FormatOption = Annotated[
    Format | None,
    typer.Option("--format", help="How to write the result.  [default: table]", show_default=False),
]

app = typer.Typer(
    name="survey",
    help="Measure the non-linearity signatures of whole model zoos.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@dataclass(frozen=True, slots=True)
class Shared:
    """Options given before the verb."""

    home: Path | None = None
    format: Format | None = None


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _shared(
    context: typer.Context,
    home: FirstHomeOption = None,
    format: FormatOption = None,  # noqa: A002
    version: Annotated[  # noqa: ARG001 - acts on its own
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    context.obj = Shared(home, format)


def chosen_home(context: typer.Context, home: Path | None) -> Path:
    """Return the home named after the verb, else before it, else the default."""
    shared: Shared = context.obj
    return home or shared.home or DEFAULT_HOME


def chosen_format(
    context: typer.Context,
    format: Format | None,  # noqa: A002
    output: Path | None = None,
) -> Format:
    """Return the format named after the verb, before it, or by a file's ending; else ``table``."""
    shared: Shared = context.obj
    ending = output.suffix.removeprefix(".").lower() if output else ""
    implied = next((known for known in get_args(Format) if known == ending), None)
    return format or shared.format or implied or "table"


_Given = ParamSpec("_Given")


def guarded(
    verb: Callable[_Given, None], interrupted: str = "run the same command again to go on"
) -> Callable[_Given, None]:
    """Turn this product's errors and interruptions into words and exit codes.

    Parameters
    ----------
    verb : callable
        What the command line calls.
    interrupted : str
        What to do after an interruption.
    """

    @functools.wraps(verb)
    def run(*args: _Given.args, **kwargs: _Given.kwargs) -> None:
        try:
            verb(*args, **kwargs)
        except SurveyError as error:
            complain(error.message, error.hint)
            raise typer.Exit(error.exit_code) from None
        except BrokenPipeError:
            # The reader of our output has gone, as in `survey sql ... | head`.
            sys.stderr.close()
            raise typer.Exit(0) from None
        except OSError as error:
            # Such as a path longer than the file system takes; what we expect is explained above.
            complain(f"{error.strerror or error}: {error.filename or ''}".rstrip(": "), None)
            raise typer.Exit(SurveyError.exit_code) from None
        except KeyboardInterrupt:
            complain("interrupted", interrupted)
            raise typer.Exit(INTERRUPTED) from None

    return run


def complain(message: str, hint: str | None) -> None:
    """Write an error and its hint to standard error, each on a line of its own."""
    typer.secho(f"error: {message}", err=True, fg=typer.colors.RED)
    if hint:
        typer.secho(f"hint: {hint}", err=True)
