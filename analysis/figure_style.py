"""How a figure is drawn for print: width, letters, range and texts, as options of verbs.

Imports nothing that draws: every help lists the options.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from analysis.option_fields import option
from survey.errors import SettingsError

#: Widths by name, in inches: a column, the text of a page of one column, and that of two.
WIDTHS = {"column": 3.25, "text": 5.5, "two-column": 6.75}

#: The least and the greatest width, in inches.
NARROWEST, WIDEST = 1.5, 48.0

#: Points of the labels of a figure that is drawn as it is.
FONT_SIZE = 7.5


def colour_option() -> Any:
    """Return the option of what colours models, for figures in which colour stands for families."""
    return option(
        None,
        "Tag, such as tags.lr, or column of models that colours the figure.",
        flags=("--color-by",),
        metavar="NAME",
        none="the family",
    )


@dataclass(frozen=True, slots=True)
class FigureStyle:
    """The options of a drawing, beside its file."""

    width: str | None = option(
        None,
        "Width of the figure in inches, or column (3.25), text (5.5) or two-column (6.75).",
        metavar="INCHES|NAME",
        none="what the figure needs",
    )
    font_size: float | None = option(
        None, "Size of the figure's labels in points.", minimum=4, maximum=72, none=f"{FONT_SIZE}"
    )
    bare: bool = option(
        False,
        "The picture alone: its finding, note and provenance only go into the file's metadata.",
    )
    y_range: tuple[float, float] | None = option(
        None, "Ends of the vertical axis.", metavar="LOW HIGH", none="those of the figure"
    )
    label_points: bool = option(False, "A name beside each model's point, as far as there is room.")

    @property
    def inches(self) -> float | None:
        """The width in inches; None where the figure has its natural one.

        Raises
        ------
        SettingsError
            If it is neither a name of ``WIDTHS`` nor a number between its bounds.
        """
        if self.width is None:
            return None
        if self.width in WIDTHS:
            return WIDTHS[self.width]
        try:
            inches = float(self.width)
        except ValueError:
            inches = math.nan
        if not NARROWEST <= inches <= WIDEST:
            raise SettingsError(
                f"--width {self.width!r} must be inches from {NARROWEST:g} to {WIDEST:g}, or"
                f" {', '.join(WIDTHS)}"
            )
        return inches

    @property
    def points(self) -> float:
        """The size of labels in points."""
        return self.font_size or FONT_SIZE

    def check(self) -> None:
        """Raise unless every option can be used.

        Raises
        ------
        SettingsError
            If the width is none, or the range is not from a lower to a higher number.
        """
        _ = self.inches
        if self.y_range is not None:
            low, high = self.y_range
            if not (math.isfinite(low) and math.isfinite(high) and low < high):
                raise SettingsError(
                    f"--y-range {low:g} {high:g} must be two numbers, the lower one first"
                )
