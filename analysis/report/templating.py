"""The templates of pages, of a report and of a service alike."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from analysis.text import sentence
from survey.text import printable_lines

_HERE = Path(__file__).parent

#: The style sheet and the script of pages.
ASSETS = _HERE / "assets"


def templates(*folders: Path) -> Environment:
    """Return the templates of these folders, and the report's, where none has one of that name.

    What they write is made printable, and escaped unless it is markup.
    """
    environment = Environment(
        loader=FileSystemLoader([*folders, _HERE / "templates"]),
        autoescape=True,
        finalize=_finalized,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["sentence"] = sentence
    return environment


def _finalized(value: object) -> object:
    """Return what a template writes, text printable; drawings, which are markup, are so already."""
    if not isinstance(value, str) or value.isprintable() or hasattr(value, "__html__"):
        return value
    return printable_lines(value)
