"""What the signature goes with: other metrics, accuracy, years, depth; and how scores spread."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from analysis.answers.base import CURVE, METRICS, Answer, AnswerTable, Drawing, untrained_option
from analysis.answers.columns import TableColumn
from analysis.choices import Accuracy, Level
from analysis.option_fields import option
from analysis.text import fixed, probability
from survey.text import counted

if TYPE_CHECKING:
    import pandas as pd

_LEVELS: dict[Level, str] = {
    "all": "Mean correlation over all architectures.",
    "family": "Mean correlation over the architectures of each family.",
    "model": "Correlation over the sites of each model.",
}


@dataclass(frozen=True, eq=False)
class Correlations(Answer):
    """Correlate the affinity with CKA, norm, sparsity, entropy and R2 over each model's sites.

    P-values are corrected for their number by Holm's method.
    """

    name = page = "correlations"
    command = "correlate"
    title = "Correlations"
    caption = _LEVELS["family"]
    method = (
        "Pearson's correlation over the sites of a model between its affinity score and each other"
        " metric; for a family and for all, the mean over architectures, random weights left out,"
        " with its deviation (Tables 1 and 2 of arXiv:2310.11439). The sites of one network are not"
        " independent, so intervals and p-values of single models are too sure of themselves."
    )
    columns = (
        *("name", TableColumn("dataset", varying=True), "metric", "n", "pearson", "std"),
        *("low", "high", TableColumn("p", form=probability, terminal=None)),
        TableColumn("p_corrected", "", probability, "Holm's over the table's tests", "p"),
        "reason",
    )
    found_by = "analysis.relations.metric_correlations:correlations_finding"
    figure = "correlation"
    needed = "pearson"
    source = ("run_id", "family", "site", "affinity", *METRICS)

    level: Level | None = option(
        None,
        "Whose correlations: each model's, means over each family, or means over all.",
        none="family, where any is known",
    )
    metric: Sequence[str] = option(
        (), "Columns to correlate with.", repeated=True, none="the paper's five"
    )
    untrained: bool = untrained_option("count in the means")

    @cached_property
    def statistics(self) -> Any:
        """The correlations of all levels."""
        from analysis.relations.metric_correlations import PAPER_METRICS, correlations

        metrics = self.metric or PAPER_METRICS
        return correlations(self.material.signatures, metrics, untrained=self.untrained)

    @property
    def drawn(self) -> Sequence[Any]:
        """The correlations, and the level that is shown."""
        families = (self.statistics["level"] == "family").any()
        return self.statistics, self.level or ("family" if families else "model")

    @property
    def rows(self) -> pd.DataFrame:
        """The correlations of the level that is shown."""
        return self._at(self.drawn[1])

    def finding(self) -> str:
        """Return which metric follows the affinity most."""
        from analysis.relations.metric_correlations import correlations_finding

        return correlations_finding(*self.drawn)

    def details(self) -> Sequence[str]:
        """Return the means over all architectures."""
        from analysis.relations.metric_correlations import means_sentences

        return means_sentences(self.statistics)

    def tables(self) -> Iterator[AnswerTable]:
        """Yield a table a level."""
        for level, caption in _LEVELS.items():
            if len(rows := self._at(level)):
                yield AnswerTable(f"{self.name}-{level}", caption, rows, self.columns)

    def _at(self, level: Level) -> pd.DataFrame:
        table: pd.DataFrame = self.statistics[self.statistics["level"] == level]
        return table.reset_index(drop=True)


@dataclass(frozen=True, eq=False)
class Regressions(Answer):
    """Regress top-1 accuracy on statistics of the signature, within each group of families.

    Beside each best predictor stands the chance of one as good among as many, had accuracy nothing
    to do with the signature.
    """

    name = page = "regressions"
    command = "regress"
    title = "Regressions"
    caption = "The best predictor of each kind and group."
    method = (
        "Top-1 accuracy on one predictor at a time, within a group of families and a dataset (Fig."
        " 4 of arXiv:2310.11439, which picks the best of many on four to nine points). Beside R2"
        " stand R2 on models left out one by one, and the chance of so good a best predictor if"
        " accuracies belonged to any model."
    )
    columns = (
        *("group", "dataset", "kind", "predictor", "n", "r2", "r2_left_out", "slope", "p"),
        *("p_picked", TableColumn("accuracy", terminal=None), "reason"),
    )
    found_by = "analysis.relations.accuracy_regressions:regressions_finding"
    figure = "regression"
    needed = "r2"
    view = "runs"
    source = (
        *("run_id", "source", "architecture", "family_group", "checkpoint", "dataset", "pooling"),
        *("measured_top1", "images", "reported_top1", "depth", "parameters", "gflops"),
    )

    permutations: int = option(9999, "Number of orders drawn where not all are tried.")
    seed: int = option(0, "Seed of the drawing of orders.")
    all_predictors: bool = option(
        False, "Every predictor, not only the best of each kind.", flags=("--all",)
    )
    accuracy: Accuracy = option("measured", "Which top-1 accuracy where both are known.")

    @cached_property
    def statistics(self) -> Any:
        """The fits of every predictor, in every group."""
        from analysis.relations.accuracy_regressions import regressions

        frames = self.material.signatures, self.material.done
        return regressions(*frames, self.permutations, self.seed, self.accuracy)

    @property
    def rows(self) -> pd.DataFrame:
        """The best predictor of each kind; where none could be fitted, why."""
        table: pd.DataFrame = self.statistics
        if self.all_predictors:
            return table
        ranked = table.sort_values("picked", ascending=False, kind="stable")
        table = ranked.drop_duplicates(["group", "dataset", "kind"]).sort_index()
        # The reason is that of the first of the kind, and much the same for the others.
        table.loc[~table["picked"], "predictor"] = ""
        return table.reset_index(drop=True)

    @property
    def drawn(self) -> Sequence[Any]:
        """The fits, and the points they go through."""
        return self.statistics, self.material.signatures, self.material.done, self.accuracy

    def details(self) -> Sequence[str]:
        """Return where accuracies differ by no more than chance would make them."""
        from analysis.relations.accuracy_regressions import LEAST_MODELS
        from analysis.relations.accuracy_spread import accuracy_spread, chance_sentences

        # How surely a published accuracy is known is not recorded.
        if self.accuracy != "measured":
            return ()
        done = self.material.done
        known = done[done["run_id"].isin(self.material.signatures["run_id"])]
        return chance_sentences(accuracy_spread(known), LEAST_MODELS)

    def tables(self) -> Iterator[AnswerTable]:
        """Yield the best predictors, and all of where any line could be fitted."""
        yield from super().tables()
        every = "Every predictor, in the groups and datasets where any line could be fitted."
        fits = self.statistics.groupby(["group", "dataset"])["r2"].transform("count")
        rows = self.statistics[fits > 0]
        yield AnswerTable(f"{self.name}-all", every, rows, self.columns)


@dataclass(frozen=True, eq=False)
class Timeline(Answer):
    """List each model's lowest, median and highest affinity, oldest architectures first."""

    name = command = page = figure = "timeline"
    title = "Timeline"
    caption = "Range of each model's affinity scores, oldest architecture first."
    columns = ("model", "family", "family_group", "year", "lowest", "median", "highest", "sites")
    computed_by = "analysis.relations.timeline:timeline"
    found_by = "analysis.relations.timeline:timeline_finding"

    @property
    def known(self) -> bool:
        """Whether there are two years to compare."""
        return bool(self.rows["year"].nunique() > 1)

    def details(self) -> Sequence[str]:
        """Return how many years are not known."""
        unknown = int(self.rows["year"].isna().sum())
        return [f"{counted(unknown, 'model')} of unknown year."] if unknown else ()


@dataclass(frozen=True, eq=False)
class Distributions(Answer):
    """Whether a model's scores lie in one heap or in two."""

    name = page = "distributions"
    command = "compare distributions"
    title = "Distributions"
    caption = "How the affinity scores of each model are spread."
    columns = (
        *("model", "family", "sites", TableColumn("mean", form=fixed(3))),
        *(TableColumn("std", "deviation", fixed(3)), "bimodality_coefficient", "dip", "dip_p"),
        "reason",
    )
    computed_by = "analysis.relations.score_shapes:shapes"
    found_by = "analysis.relations.score_shapes:shapes_finding"
    figure = "distribution"

    @property
    def drawn(self) -> Sequence[Any]:
        """The scores, and the shapes of their distributions."""
        return self.material.signatures, self.statistics


@dataclass(frozen=True, eq=False)
class Depth(Answer):
    """How the typical affinity of a family's networks changes with their depth."""

    name = page = "depth"
    title = "Depth"
    caption = "Networks of families with several depths, the shallowest first."
    columns = ("model", "family", "sites", "median")
    computed_by = "analysis.relations.depth:depths"
    found_by = "analysis.relations.depth:depths_finding"
    source = (*CURVE, "activation", "graph_depth")

    def drawings(self) -> Iterator[Drawing]:
        """Yield a figure a family."""
        from analysis.figures import depth_chart, model_rows

        signatures = self.material.signatures
        for place, (family, run_ids) in enumerate(self.rows.groupby("family")["run_id"], 1):
            chart = depth_chart(signatures, str(family))
            rows = model_rows(signatures[signatures["run_id"].isin(run_ids)])
            # Numbered, as names may differ in what a file's name cannot hold.
            yield Drawing(chart, rows, f"{self.name}-{place}-{family}", tuple(run_ids))
