"""Text and columns cut to the width of a terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.cells import cell_len, set_cell_size

#: What stands for the characters that are left out.
ELLIPSIS = "…"

_BETWEEN = " / "

#: Cells that a column of text keeps: those of a run id, a state and most architectures.
LEAST_TEXT = 14

#: Columns that say why something went wrong, or is to be done.
CAUSES = ("error", "reason", "why")

#: Words from which on a text is a sentence, and the most lines that one is broken into.
PROSE_WORDS, PROSE_LINES = 4, 8

#: Cells between two columns.
GAP = 2


@dataclass(frozen=True, slots=True)
class FittingColumns:
    """The columns of a table that fit a width."""

    #: The places of the columns that are shown, and the width of each.
    places: tuple[int, ...]
    widths: tuple[int, ...]
    #: The places of columns left out that hold the same in every row, and of other ones.
    alike: tuple[int, ...] = ()
    left_out: tuple[int, ...] = ()


def fit_columns(
    lines: Sequence[Sequence[str]], numbers: Sequence[bool], width: int
) -> FittingColumns:
    """Return which columns of a table fit, and how wide each is.

    Columns that hold the same in every row, as those of a single row do, are left out first. Then
    columns of text are cut, down to ``LEAST_TEXT``: a number that is cut is another number. Where
    that is not enough, the last columns are left out, those of ``CAUSES`` after the others.

    Parameters
    ----------
    lines : sequence of sequence of str
        The cells, the headings first.
    numbers : sequence of bool
        Whether each column holds numbers.
    width : int
        Cells of the whole table.
    """
    widths = [max(map(cell_len, column)) for column in zip(*lines, strict=True)]
    least = [w if n else min(w, LEAST_TEXT) for w, n in zip(widths, numbers, strict=True)]
    places = list(range(len(widths)))
    held = [{line[place] for line in lines[1:]} for place in places]
    same = [k for k in places[1:] if len(held[k]) == 1]
    last = sorted(places[1:], key=lambda place: (lines[0][place] in CAUSES, -place))
    for order, needs in ((same[::-1], widths), (last, least)):
        for place in order:
            if sum(needs[k] + GAP for k in places) - GAP <= width:
                break
            if place in places:
                places.remove(place)
    gone = set(range(len(widths))) - set(places)
    room = width - GAP * (len(places) - 1)
    shown = cut_widths([widths[k] for k in places], [least[k] for k in places], room)
    return FittingColumns(
        tuple(places), tuple(shown), tuple(sorted(gone & {*same})), tuple(sorted(gone - {*same}))
    )


def cut_text(text: str, width: int) -> str:
    """Return a text of at most so many terminal cells.

    A path loses its first folders, then the end of its last name; other text loses its middle.

    Parameters
    ----------
    text : str
        Text on one line.
    width : int
        Cells, at least 1.
    """
    if cell_len(text) <= width:
        return text
    _, folder, name = text.rpartition("/")
    if folder and cell_len(name) > width - 2:
        return cut_end(name, width)
    end = width - 1 if folder else (width - 1) * 2 // 3
    tail = set_cell_size(text[::-1], end)[::-1]
    return set_cell_size(text, width - 1 - end) + ELLIPSIS + tail


def cut_end(text: str, width: int) -> str:
    """Return a text of at most so many terminal cells, its end left out where it is longer."""
    return text if cell_len(text) <= width else set_cell_size(text, width - 1) + ELLIPSIS


def cut_lines(text: str, width: int) -> list[str]:
    """Return a text as lines of at most so many cells: a sentence is broken, other text is cut."""
    if cell_len(text) <= width or len(text.split()) < PROSE_WORDS:
        return [cut_text(text, width)]
    return [cut_end(line, width) for line in wrap(text, width, max_lines=PROSE_LINES)]


def cut_title(title: str, width: int) -> str:
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
    widths = cut_widths(lengths, [1] * len(names), room)
    cut = (cut_text(name, cells) for name, cells in zip(names, widths, strict=True))
    return cut_text(_BETWEEN.join(cut), width)


def cut_widths(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
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
