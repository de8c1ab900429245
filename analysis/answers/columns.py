"""Tables and their columns: headings, formats and meanings, in a terminal and on a page.

``COLUMNS`` holds them by the columns' names; an answer declares a column itself where the name has
another meaning there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.text import cell, fixed, missing, percent, probability, spaced, whole

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column of a frame as tables show it."""

    #: The frame's column.
    name: str
    #: Its heading on a page; its name, with spaces, by default.
    heading: str = ""
    #: Returns the text of a value on a page.
    form: Callable[[Any], str] = cell
    #: Its meaning, where the heading does not say it; shown below a page's table.
    meaning: str = ""
    #: Its heading in a terminal, its name by default; None where a terminal has no room.
    terminal: str | None = ""
    #: Whether a terminal shows it only where it has a value.
    optional: bool = False
    #: Whether a terminal shows it only where its values differ.
    varying: bool = False

    @property
    def title(self) -> str:
        """The heading on a page."""
        return self.heading or spaced(self.name)

    def in_terminal(self, frame: pd.DataFrame) -> bool:
        """Return whether a terminal's table of a frame has this column."""
        if self.optional:
            return self.name in frame and not all(map(missing, frame[self.name].astype(object)))
        return self.terminal is not None and (not self.varying or frame[self.name].nunique() > 1)


@dataclass(frozen=True, slots=True)
class Table:
    """A frame as a table of a page."""

    #: Unique in its page.
    name: str
    caption: str
    rows: pd.DataFrame
    #: The columns to show; those given by name are of ``COLUMNS``.
    columns: Sequence[str | TableColumn]


#: Columns of numbers by their decimals, without a heading or meaning of their own.
_DECIMALS = {
    2: ("adjusted_mutual_information", "novelty", "trend_initial", "trend_trained"),
    3: (
        *("difference", "distance", "highest", "lowest", "mean_after", "mean_initial"),
        *("mean_others", "mean_trained", "median", "median_after", "median_others"),
        *("median_plain", "median_residual", "std_plain", "std_residual"),
    ),
}

_WHOLE = (
    *("after", "checkpoints", "cluster", "clusters", "labels", "models", "n", "others", "rank"),
    *("site", "sites"),
)


def _yes_or_no(value: bool) -> str:
    return "yes" if value else "no"


def _metric(name: str) -> str:
    from survey.metrics import title_of

    return title_of(name)


def _year(value: float) -> str:
    return str(int(value))


_EVERY = (
    *(TableColumn(name, form=fixed(n)) for n, names in _DECIMALS.items() for name in names),
    *(TableColumn(name, form=whole) for name in _WHOLE),
    *(TableColumn(name, form=spaced) for name in ("label", "predictor", "quantity")),
    TableColumn("adjusted_rand", "", fixed(2), "1 for the same parts, 0 for chance"),
    TableColumn("affinity_after", "", fixed(4), terminal="is"),
    TableColumn("affinity_before", "", fixed(4), terminal="was"),
    TableColumn(
        "bimodality_coefficient",
        "bimodality",
        fixed(2),
        "Sarle's coefficient; above 5/9, that of a uniform distribution, speaks for two modes",
    ),
    TableColumn("cliffs_delta", "Cliff's delta", fixed(2), "1 where all sites after are higher"),
    TableColumn("correlation", "", fixed(2), "of pairs of checkpoints, over sites"),
    TableColumn("correlation_lowest", "lowest correlation", fixed(2), "of all pairs"),
    TableColumn("dip", "", fixed(3), "Hartigan's dip, the distance from any single mode"),
    TableColumn("dip_p", "p of the dip", probability),
    TableColumn("dtw", "DTW", fixed(3)),
    TableColumn("dtw_std", "deviation of DTW", fixed(3)),
    TableColumn("euclidean", "Euclidean", fixed(3)),
    TableColumn("euclidean_std", "deviation of Euclidean", fixed(3)),
    TableColumn("family_group", "group"),
    TableColumn("high", "to", fixed(2), "upper end of the 95 % interval"),
    TableColumn("low", "from", fixed(2), "lower end of the 95 % interval"),
    TableColumn("lowered", "sites lowered", percent),
    TableColumn("metric", form=_metric),
    TableColumn("mean_difference", "difference of means", fixed(3)),
    TableColumn("other_family", "family", terminal="its family"),
    TableColumn("other_model", "neighbour", terminal="neighbour"),
    TableColumn(
        "n_effective", "effective n", fixed(1), "independent sites they are worth", optional=True
    ),
    TableColumn("p", form=probability),
    TableColumn("p_corrected", "", probability, "Holm's correction over the table's tests"),
    TableColumn("p_picked", "p of the pick", probability, "of the best of its kind", "p as picked"),
    TableColumn("pearson", "Pearson's r", fixed(2)),
    TableColumn("q", "", probability, "false discovery rate (Benjamini and Hochberg)"),
    TableColumn("r2", "R2", fixed(2)),
    TableColumn("r2_left_out", "R2 left out", fixed(2), "below 0 it is worse than the mean"),
    TableColumn("reason", "why something is blank"),
    TableColumn("relative_std", "relative deviation", fixed(3), "over the size of the mean"),
    TableColumn("right", form=_yes_or_no),
    TableColumn("shift", "", fixed(3), "trained less initial"),
    TableColumn("silhouette", "", fixed(2), "near 1 well within its cluster, below 0 outside"),
    TableColumn("stability", "", fixed(2), "of the cluster, over draws of batches", optional=True),
    TableColumn("standard_error", "", fixed(4), terminal="se"),
    TableColumn("std", "deviation"),
    TableColumn("year", form=_year),
)

COLUMNS = {column.name: column for column in _EVERY}


def columns_of(names: Iterable[str | TableColumn]) -> list[TableColumn]:
    """Return columns by name, as ``COLUMNS`` has them; others with the defaults."""
    return [
        COLUMNS.get(each, TableColumn(each)) if isinstance(each, str) else each for each in names
    ]
