"""Trends of the affinity over a tag of the runs, such as the epoch of training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from analysis.answers.base import CURVE, DEPTHS, Answer
from analysis.answers.columns import TableColumn
from analysis.option_fields import option
from analysis.text import fixed
from survey.text import counted

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class AffinityTrends(Answer):
    """How the affinity changes with a tag of the runs, such as the epoch of training.

    The runs of one network on one dataset are a line.
    """

    name = command = page = figure = "trend"
    title = "Trend"
    caption = "How the mean affinity of each network changes with a tag."
    method = (
        "Least squares and Pearson's correlation of the affinity on the tag, over the runs of a"
        " network on a dataset. The mean is over the sites that have a score in all of them. There"
        " are no p-values: the runs of one training follow one another."
    )
    columns = (
        *("network", "against", "site_name", "n", "lowest", "highest"),
        *(TableColumn("at_lowest", form=fixed(3)), TableColumn("at_highest", form=fixed(3))),
        *(TableColumn("change", form=fixed(3)), "slope", "pearson", "reason"),
    )
    computed_by = "analysis.relations.trend:trends"
    found_by = "analysis.relations.trend:trends_finding"
    needed = "change"
    most = 12
    source = (*CURVE, *DEPTHS, "site_name")

    against: str | None = option(
        None,
        "Tag, such as tags.epoch, or a number known of models, such as year.",
        none="a tag whose numbers differ, epoch or step first",
    )
    by: Sequence[str] = option(
        (),
        "Tag or column by which the runs of a network are different lines; may be repeated.",
        repeated=True,
        none="none",
    )
    every_site: bool = option(
        False, "A row for each site, not only for their mean.", flags=("--all",)
    )

    @property
    def inputs(self) -> Sequence[Any]:
        """The signatures, and the runs with their tags."""
        return self.signatures, self.material.done

    @property
    def rows(self) -> pd.DataFrame:
        """The trends of the means; those of the sites too, where they are asked for."""
        table: pd.DataFrame = self.statistics
        return table if self.every_site else table[table["site"].isna()].reset_index(drop=True)

    @cached_property
    def drawn(self) -> Sequence[Any]:
        """The trends, and the points that they go through."""
        from analysis.relations.trend import trend_points

        signatures, models = self.inputs
        return self.statistics, trend_points(signatures, models, self.against, self.by)

    def details(self) -> Sequence[str]:
        """Return how many runs have no number to be drawn over."""
        _, points = self.drawn
        lacking = len(self.material.done) - points["run_id"].nunique()
        return [f"{counted(lacking, 'run')} without such a number left out."] if lacking else ()
