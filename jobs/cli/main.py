"""The console script, and the table of its verbs."""

from __future__ import annotations

import functools
import gc
import os
import sys
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from jobs.choices import Format
from jobs.cli.terminal import complain, make_streams_safe, say
from jobs.cli.verb import (
    DEFAULT_HOME,
    FORMAT_HELP,
    HOME_HELP,
    JSON_HELP,
    SharedOptions,
    home_of,
    one_format,
)
from survey import __version__
from survey.errors import SurveyError

#: The verbs by what a user wants to do. The module of ``jobs.cli`` that has a function (or a group
#: of commands) of a verb's name is called as the verb is, or named below; it is imported when the
#: verb is used.
VERBS = {
    "Measure": ("demo", "plan", "fetch", "run", "status", "schedule"),
    "Look at measurements": ("show", "tag", "sql", "report"),
    "Explain measurements": (
        *("cluster", "neighbours", "correlate", "regress", "timeline", "trend", "compare", "drift"),
    ),
    "Study activation functions": ("activations", "linearise"),
    "Serve measurements": ("serve", "token"),
    "Browse what can be measured": ("models", "checkpoints", "datasets"),
    "Find and solve problems": ("doctor", "log", "retry", "cancel"),
    "Keep measurements": ("backup", "restore"),
}

_MODULES = {
    **dict.fromkeys(("log", "retry", "cancel", "tag"), "jobs"),
    **dict.fromkeys(VERBS["Explain measurements"], "answers"),
    **dict.fromkeys(VERBS["Keep measurements"], "backup"),
    **{verb: f"service.{verb}" for verb in VERBS["Serve measurements"]},
    **{verb: f"catalog.{verb}" for verb in VERBS["Browse what can be measured"]},
}

_PANELS = {verb: panel for panel, verbs in VERBS.items() for verb in verbs}


@functools.cache
def _command(verb: str) -> Any:
    module = import_module(f"jobs.cli.{_MODULES.get(verb, verb)}")
    command = getattr(module, verb)
    if not isinstance(command, typer.Typer):
        alone = typer.Typer(add_completion=False)
        alone.command(verb)(command)
        command = alone
    made = typer.main.get_command(command)
    made.rich_help_panel = _PANELS[verb]  # type: ignore[attr-defined]
    if "images_per_score" in {each.name for each in made.params}:
        made.context_settings["token_normalize_func"] = _use_present_name
    return made


class _Verbs(typer.core.TyperGroup):
    """The group of verbs; the command of a verb is made on first use."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings | {"commands": dict.fromkeys(_PANELS)})

    def get_command(self, _context: Any, verb: str) -> Any:
        return _command(verb) if verb in _PANELS else None


def _use_present_name(option: str) -> str:
    """Return the current name of an option; ``--images-per-score`` was ``--batch-size`` before."""
    return "images-per-score" if option == "batch-size" else option


app = typer.Typer(
    name="survey",
    cls=_Verbs,
    help="Measure the non-linearity signatures of whole model zoos.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(wanted: bool) -> None:
    if wanted:
        say(__version__, err=False)
        raise typer.Exit


@app.callback()
def _before_the_verb(
    context: typer.Context,
    # Only here is the environment read: it loses to an option in either place.
    home: Annotated[
        Path | None,
        typer.Option(
            "--home",
            parser=home_of,
            metavar="PATH",
            help=HOME_HELP,
            envvar="SURVEY_HOME",
            show_default=str(DEFAULT_HOME),
        ),
    ] = None,
    format: Annotated[  # noqa: A002
        Format | None, typer.Option("--format", help=FORMAT_HELP, show_default="table")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help=JSON_HELP)] = False,
    version: Annotated[  # noqa: ARG001 - acts on its own
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    context.obj = SharedOptions(home, one_format(format, json=json))


def main() -> None:
    """Run the command line."""
    make_streams_safe()
    # Importing makes hundreds of thousands of objects that stay: looking among them for garbage
    # every 700 takes a tenth of what a short verb does.
    gc.set_threshold(50_000)
    # Ray's usage statistics are off unless the user sets this to 1.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    try:
        app()
    except OSError as error:
        # Of a help text or the version, which cannot be written: the verbs explain their own.
        complain(error.strerror or str(error), None)
        sys.exit(SurveyError.exit_code)


if __name__ == "__main__":
    main()
