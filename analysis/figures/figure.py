"""A figure: a drawing or several panels, with its finding above and its caption below.

A figure says what was found in its title, how to read it in the line below, and what it was made
from in the caption.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, cast

import altair as alt
import pandas as pd

from analysis.data.provenance import provenance_of
from analysis.figures.export import svg
from analysis.figures.files.words import below
from analysis.figures.theme import LABEL_SIZE, NOTE_SIZE, TITLE_SIZE, styled, wrapped
from survey import __version__
from survey.errors import NothingToDraw

#: What stands in a panel or a row of its own.
Name = TypeVar("Name")


class Figure(alt.VConcatChart):
    """A chart with its finding above and its provenance below, as a notebook displays it.

    A notebook that knows Vega-Lite draws it with its toggles; any other shows the SVG within. No
    network is needed for either.
    """

    def _repr_mimebundle_(self, *_args: Any, **_options: Any) -> dict[str, Any]:
        return {
            "application/vnd.vegalite.v6.json": self.to_dict(),
            "image/svg+xml": svg(self),
            "text/plain": str(self.description),
        }


def figure(
    body: Any,
    finding: str,
    *,
    note: str,
    source: pd.DataFrame,
    width: int,
    params: Sequence[Any] = (),
) -> Figure:
    """Return a drawing with its finding above and its caption below.

    Parameters
    ----------
    body : altair chart
        The drawing, which becomes part of the figure.
    finding : str
        What it shows, a sentence made from its data.
    note : str
        How to read it; may be empty.
    source : pandas.DataFrame
        What it was made from, for the caption.
    width : int
        Width of the drawing with its labels, in pixels, at which text is broken into lines.
    params : sequence of altair.VariableParameter, optional
        What a reader can choose.

    Returns
    -------
    Figure
        Its description, which screen readers read out, is the finding and the note.
    """
    body.title = alt.Title(
        wrapped(finding, width, TITLE_SIZE, bold=True),
        subtitle=wrapped(note, width, NOTE_SIZE) if note else alt.Undefined,
        anchor="start",
    )
    provenance = provenance_of(source)
    unknown = f"{provenance.selection}; which runs is not recorded; survey {__version__}"
    caption = provenance.caption() if provenance.runs else unknown
    described = f"{finding} {note}".strip()
    framed = Figure(
        vconcat=[body],
        title=below(caption, width),
        description=described,
        params=list(params) or alt.Undefined,
    )
    return cast("Figure", styled(framed))


def head(text: str, below: str | Sequence[str] = "", **options: Any) -> alt.Title:
    """Return the title of a panel, with a subtitle in smaller letters."""
    return alt.Title(
        text,
        subtitle=below or alt.Undefined,
        fontSize=NOTE_SIZE,
        subtitleFontSize=LABEL_SIZE,
        anchor="middle",
        offset=4,
        **options,
    )


def first_of(names: Sequence[Name], most: int, which: str) -> tuple[list[Name], str]:
    """Return the first names, and what a note says where they are not all.

    Parameters
    ----------
    names : sequence
        What has a panel or a row of its own.
    most : int
        How many of them a reader, and a browser, can take in.
    which : str
        What distinguishes the first ones.
    """
    few = list(names[:most])
    return few, f" {most} of {len(names):,} shown, {which}." if len(few) < len(names) else ""


def side_by_side(panels: Sequence[Any], columns: int, empty: str = "") -> Any:
    """Return panels in rows of this many columns.

    Raises
    ------
    NothingToDraw
        If there is no panel, with the reason.
    """
    if not panels:
        raise NothingToDraw(empty)
    return alt.concat(*panels, columns=columns)
