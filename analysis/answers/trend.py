"""Trends of the affinity over years, depths, and a tag of the runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from analysis.answers.base import CURVE, DEPTHS, Answer, ColouredAnswer, Drawing
from analysis.answers.columns import TableColumn
from analysis.option_fields import option
from analysis.text import fixed
from survey.text import counted

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class AffinityTimeline(ColouredAnswer):
    """List each model's lowest, median and highest affinity, oldest architectures first."""

    name = command = page = figure = "timeline"
    title = "Timeline"
    caption = "Range of each model's affinity scores, oldest architecture first."
    columns = ("model", "family", "family_group", "year", "lowest", "median", "highest", "sites")
    unit = "the architecture, within families of them"
    source, needed = (*CURVE, "family_group", "year"), "year"
    computed_by = "analysis.relations.timeline:timeline"
    found_by = "analysis.relations.timeline:timeline_finding"

    def details(self) -> Sequence[str]:
        """Return how many models have no known year."""
        unknown = int(self.rows["year"].isna().sum())
        return [f"{counted(unknown, 'model')} of unknown year."] if unknown else ()


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
        " network on a dataset. The mean is over the sites that have a score in all of them, but"
        " for runs without any. There are no p-values: the runs of one training follow one another."
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
        lacking = self.signatures["run_id"].nunique() - points["run_id"].nunique()
        return [f"{counted(lacking, 'run')} without such a number left out."] if lacking else ()


@dataclass(frozen=True, eq=False)
class AffinityByDepth(Answer):
    """How the median affinity of a family's networks changes with their depth."""

    name = page = "depth"
    title = "Depth"
    caption = "Networks of families with several depths, the shallowest first."
    columns = ("model", "family", "sites", "median")
    unit = "the architecture, of one family"
    computed_by = "analysis.relations.network_depth:depths"
    found_by = "analysis.relations.network_depth:depths_finding"
    source = (*CURVE, *DEPTHS, "site_name", "activation", "affinity_std")

    def drawings(self) -> Iterator[Drawing]:
        """Yield a figure a family."""
        from analysis.figures import depth_chart, model_rows

        signatures = self.signatures
        for place, (family, run_ids) in enumerate(self.rows.groupby("family")["run_id"], 1):
            chart = partial(depth_chart, signatures, str(family))
            rows = partial(model_rows, signatures[signatures["run_id"].isin(run_ids)])
            # Numbered, as names may differ in what a file's name cannot hold.
            yield Drawing(chart, rows, f"{self.name}-{place}-{family}", tuple(run_ids))
