"""Text and columns cut to the width of a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, set_cell_size

#: What stands for the characters that are left out.
ELLIPSIS = "…"

_BETWEEN = " / "


def shortened(text: str, width: int) -> str:
    """Return a text of at most so many terminal cells, its middle left out where it is longer.

    Names differ in their ends: of a file, the folder comes first and the name last.

    Parameters
    ----------
    text : str
        Text on one line.
    width : int
        Cells, at least 1.
    """
    if cell_len(text) <= width:
        return text
    end = (width - 1) * 2 // 3
    head, tail = set_cell_size(text, width - 1 - end), set_cell_size(text[::-1], end)[::-1]
    return f"{head}{ELLIPSIS}{tail}"


def shortened_title(title: str, width: int) -> str:
    """Return a job's title of at most so many cells, the longest of its names cut first.

    Parameters
    ----------
    title : str
        Names with `` / `` between them: model, checkpoint, dataset.
    width : int
        Cells, at least 1.
    """
    names = title.split(_BETWEEN)
    lengths = [cell_len(name) for name in names]
    room = width - cell_len(_BETWEEN) * (len(names) - 1)
    widths = fitted(lengths, [1] * len(names), room)
    cut = (shortened(name, cells) for name, cells in zip(names, widths, strict=True) if name)
    return shortened(_BETWEEN.join(cut), width)


def fitted(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return widths of columns that fit together into a room, the widest cut first.

    Parameters
    ----------
    widths : sequence of int
        What each column needs for its longest cell.
    least : sequence of int
        What each column keeps in any case.
    room : int
        Cells for all of them.

    Returns
    -------
    list of int
        The widths; more than the room where the least widths are.
    """
    # The largest common bound at which they fit: columns below it are not cut.
    low, high = 0, max(widths, default=0)
    while low < high:
        bound = (low + high + 1) // 2
        if sum(_bounded(widths, least, bound)) <= room:
            low = bound
        else:
            high = bound - 1
    return _bounded(widths, least, low)


def _bounded(widths: Sequence[int], least: Sequence[int], bound: int) -> list[int]:
    return [min(w, max(bound, keep)) for w, keep in zip(widths, least, strict=True)]
