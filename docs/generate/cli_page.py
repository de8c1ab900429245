"""Writes docs/cli.md from the commands themselves: ``python -m docs.generate.cli_page``."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import typer

from jobs.cli.main import VERBS, app

_HEAD = """\
# The command line

Made from the commands by `make docs`; `survey VERB --help` shows the same.

`survey` takes the options below before the verb; those given after the verb win. The exit code is
0 after success, 1 if some jobs failed, 2 if something cannot be done as asked, 3 if something does
not work here, 130 after an interruption.

`survey --install-completion` lets the Tab key complete verbs, options and the fixed choices of
their values, from the next shell on (bash, zsh, fish and PowerShell).
"""


def page() -> str:
    """Return docs/cli.md: every command in its group, with its usage, description and options."""
    group: Any = typer.main.get_command(app)
    context = typer.Context(group, info_name="survey")
    lines = [_HEAD, *_parameters(group, context)]
    for panel, verbs in VERBS.items():
        lines.append(f"\n## {panel}\n")
        for verb in verbs:
            lines += _section(group.get_command(context, verb), context, verb)
    return "\n".join(lines) + "\n"


def _section(command: Any, parent: typer.Context, verb: str) -> Iterator[str]:
    context = typer.Context(command, info_name=verb, parent=parent)
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    yield f"### {context.command_path}\n\n```\n{usage}\n```\n\n{command.help}\n"
    yield from _parameters(command, context)
    for name, inner in getattr(command, "commands", {}).items():
        yield from _section(inner, context, name)


def _parameters(command: Any, context: typer.Context) -> Iterator[str]:
    """Return a table of a command's arguments and options, without ``--help``."""
    records = [each.get_help_record(context) for each in command.params]
    shown = [record for record in records if record is not None]
    if shown:
        yield "| | |\n|---|---|"
        for names, text in shown:
            yield f"| `{names.replace('|', chr(92) + '|')}` | {text} |"
        yield ""


if __name__ == "__main__":
    sys.stdout.write(page())
