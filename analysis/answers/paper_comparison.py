"""Comparisons of our numbers with those printed in the paper of the affinity score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from analysis.answers.base import CURVE, Answer
from analysis.answers.columns import TableColumn
from analysis.choices import PAPER_METRICS
from analysis.option_fields import option
from analysis.text import fixed
from survey.settings import Ridge

if TYPE_CHECKING:
    import pandas as pd

#: The ridge that the paper's numbers have.
PAPER_RIDGE: Ridge = "absolute"

#: The paper's names of its tables and figures.
_PRINTED = {**{f"table{n}": f"Table {n}" for n in (1, 2, 3)}, "fig4": "Figure 4"}


@dataclass(frozen=True, eq=False)
class _PaperComparison(Answer):
    """Our numbers beside some of those that the paper prints."""

    figure = "paper"
    columns = (
        *(TableColumn("table", form=_PRINTED.__getitem__), "name", "quantity"),
        *(TableColumn(name, form=fixed(2)) for name in ("paper", "paper_std", "ours", "ours_std")),
        TableColumn("ours_error", "", fixed(2), "standard error from the images seen", "error"),
        *("n", TableColumn("difference", form=fixed(2), meaning="ours less the paper's")),
        *("dataset", "note", "reason"),
    )
    source = (*CURVE, *PAPER_METRICS)
    found_by = "analysis.paper.compare:paper_finding"
    needed = "difference"
    every_score = True
    apart = ("dataset", "pooling")
    #: Which of the paper's tables and figures.
    tables_of_paper: ClassVar[Sequence[str]] = tuple(_PRINTED)

    @cached_property
    def statistics(self) -> Any:
        """One row a printed number."""
        from analysis.paper.compare import compare_paper

        material = self.material.of_ridge(PAPER_RIDGE)
        sites = material.sites(self.read)
        compared = compare_paper(sites, material.done, material.layers)
        chosen = compared["table"].isin(self.tables_of_paper)
        return compared[chosen].reset_index(drop=True)

    @property
    def rows(self) -> pd.DataFrame:
        """The printed numbers of what was surveyed."""
        from analysis.paper.compare import surveyed_rows

        return surveyed_rows(self.statistics)

    def details(self) -> Sequence[str]:
        """Return the differences table by table, and what was not surveyed."""
        from analysis.paper.compare import paper_sentences

        return paper_sentences(self.statistics)

    @property
    def drawn(self) -> Sequence[Any]:
        """The rows that are shown."""
        return (self.rows,)


@dataclass(frozen=True, eq=False)
class PaperNumbers(_PaperComparison):
    """Our numbers beside those that the paper prints."""

    name = page = "paper"
    command = "compare paper"
    title = "The paper"
    caption = "The numbers that arXiv:2310.11439 prints, and ours."

    all_rows: bool = option(False, "Printed numbers without a measured one too.", flags=("--all",))

    @property
    def rows(self) -> pd.DataFrame:
        """The printed numbers of what was surveyed, or all of them."""
        table: pd.DataFrame = self.statistics
        return table if self.all_rows else super().rows


@dataclass(frozen=True, eq=False)
class PaperCorrelations(_PaperComparison):
    """Our correlations beside those that the paper prints."""

    name = "paper-correlations"
    command = "correlate --compare-paper"
    tables_of_paper = ("table1", "table2")


@dataclass(frozen=True, eq=False)
class PaperRegressions(_PaperComparison):
    """Our regressions beside those that the paper prints."""

    name = "paper-regressions"
    command = "regress --compare-paper"
    tables_of_paper = ("fig4",)
