"""Tables in Markdown."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown, without a last line's end."""
    escaped = ([cell.replace("|", "\\|") for cell in cells] for cells in (head, *rows))
    first, *others = (f"| {' | '.join(cells)} |" for cells in escaped)
    return "\n".join([first, "|" + "---|" * len(head), *others])
