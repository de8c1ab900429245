"""All commands by their names, such as ``run`` and ``schedule add``."""

from __future__ import annotations

from typing import Any

import typer

from jobs.cli.main import app


def commands() -> dict[str, Any]:
    """Return every command that does something, by what is typed after ``survey``."""
    return dict(_below("", typer.main.get_command(app)))


def _below(name: str, command: Any) -> list[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        return [(name, command)]
    return [
        one
        for verb in command.commands
        for one in _below(f"{name} {verb}".strip(), command.get_command(None, verb))
    ]
