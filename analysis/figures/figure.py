"""Panels: small drawings side by side under one finding, each with a head of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import pandas as pd

from analysis.figures.theme import LABEL_SIZE, NOTE_SIZE


def head(text: str, below: str | Sequence[str] = "", **options: Any) -> alt.Title:
    """Return what stands over a panel: what it shows, and in smaller letters what of it."""
    return alt.Title(
        text,
        subtitle=below or alt.Undefined,
        fontSize=NOTE_SIZE,
        subtitleFontSize=LABEL_SIZE,
        anchor="middle",
        offset=4,
        **options,
    )


def side_by_side(panels: Sequence[Any], columns: int, empty: str = "") -> Any:
    """Lay panels in rows of so many; where there are none, say why instead."""
    return alt.concat(*panels, columns=columns) if panels else nothing(empty)


def nothing(why: str) -> Any:
    """Return a drawing of a sentence, for where there is nothing to draw."""
    empty = alt.Chart(pd.DataFrame({"shown": [why]}))
    drawn = empty.mark_text(fontSize=NOTE_SIZE).encode(text="shown:N")
    return drawn.properties(width=300, height=60)
