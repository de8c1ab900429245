"""Relations of the affinity to other metrics and accuracy; its distributions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from analysis.answers.base import TRAINED_ALONE, Answer
from analysis.answers.columns import Table, TableColumn
from analysis.choices import PAPER_METRICS, Accuracy, Level
from analysis.option_fields import LARGEST_SEED, option
from analysis.text import fixed, probability
from survey.text import counted

if TYPE_CHECKING:
    import pandas as pd

#: Models up to which a page lists the correlations of each.
MOST_TABLED = 200

_LEVELS: dict[Level, str] = {
    "all": "Mean correlation over all architectures.",
    "family": "Mean correlation over the architectures of each family.",
    "model": "Correlation over the sites of each model.",
}


@dataclass(frozen=True, eq=False)
class MetricCorrelations(Answer):
    """Correlate the affinity with CKA, norm, sparsity, entropy and R2 over each model's sites.

    P-values are corrected for their number by Holm's method; q is the false discovery rate.
    """

    name = page = "correlations"
    command = "correlate"
    title = "Correlations"
    caption = _LEVELS["family"]
    method = (
        "Pearson's correlation over the sites of a model between its affinity score and each other"
        " metric; for a family and for all, the mean over architectures,"
        " with its deviation (Tables 1 and 2 of arXiv:2310.11439). Architectures of one family are"
        " alike: the interval and the p of all are those of the means of families. Sites next to"
        " each other, or in the same place of their blocks, are alike: the interval and the p of a"
        " model are those of as many independent sites as its sites are worth (effective n)."
    )
    unit = (
        "the effective site for a single model, the architecture for the mean of a family, the"
        " family for that of all"
    )
    columns = (
        *("name", TableColumn("dataset", varying=True), "metric", "n"),
        *(TableColumn("families", terminal=None), "n_effective", "pearson", "std"),
        TableColumn("family_mean", "mean of families", varying=True),
        *("low", "high", TableColumn("p", form=probability, terminal=None)),
        TableColumn("p_corrected", "", probability, "Holm's over the table's tests", "p"),
        *("q", "reason"),
    )
    computed_by = "analysis.relations.metric_correlations:mean_correlations"
    found_by = "analysis.relations.correlation_sentences:correlations_finding"
    figure = "correlation"
    needed = "pearson"
    source = (
        *("run_id", "model", "source", "architecture", "checkpoint", "family", "dataset"),
        *("dataset_name", "pooling", "site", "affinity", *PAPER_METRICS),
    )
    apart = ("dataset", "pooling")

    level: Level | None = option(
        None,
        "Whose correlations: each model's, means over each family, or means over all.",
        none="family, where any is known",
    )
    metrics: Sequence[str] = option(
        PAPER_METRICS,
        "Columns to correlate with.",
        flags=("--metric",),
        repeated=True,
        none="the paper's five",
    )

    @property
    def read(self) -> Sequence[str]:
        """The columns that it is computed from, with those to correlate with."""
        return *self.source, *self.metrics

    @cached_property
    def _of_models(self) -> pd.DataFrame:
        """Those of all levels: rows and tests of models are computed where they are shown."""
        from analysis.relations.metric_correlations import correlations

        return correlations(*self.inputs, **self.options)

    @property
    def drawn(self) -> Sequence[Any]:
        """The correlations, and the level that is shown."""
        families = (self.statistics["level"] == "family").any()
        level = self.level or ("family" if families else "model")
        return self._of_models if level == "model" else self.statistics, level

    @property
    def rows(self) -> pd.DataFrame:
        """The correlations of the level that is shown."""
        return self._at(self.drawn[1])

    def finding(self) -> str:
        """Return which metric correlates most with the affinity."""
        sentence: str = resolve_name(self.found_by)(*self.drawn)
        return sentence

    def details(self) -> Sequence[str]:
        """Return the mean correlations over all architectures, and where those of models are."""
        from analysis.relations.correlation_sentences import means_sentences

        means = means_sentences(self.statistics)
        each = f"{counted(self._models, 'model')}: the option level lists each with model"
        return [*means, each] if self._models > MOST_TABLED and self.level != "model" else means

    def tables(self) -> Iterator[Table]:
        """Yield a table a level, that of models where they are few enough to be read."""
        for level, caption in _LEVELS.items():
            readable = level != "model" or self._models <= MOST_TABLED
            if readable and len(rows := self._at(level)):
                yield Table(f"{self.name}-{level}", caption, rows, self.columns)

    @property
    def _models(self) -> int:
        return int(self.statistics.attrs["models"])

    def _at(self, level: Level) -> pd.DataFrame:
        every = self._of_models if level == "model" else self.statistics
        table: pd.DataFrame = every[every["level"] == level]
        return table.reset_index(drop=True)


@dataclass(frozen=True, eq=False)
class AccuracyRegressions(Answer):
    """Regress top-1 accuracy on statistics of the signature, within each group of families.

    A point is an architecture, with the mean over its checkpoints. The p-value of each best
    predictor accounts for picking it among many.
    """

    name = page = "regressions"
    command = "regress"
    title = "Regressions"
    caption = "The best predictor of each kind and group."
    method = (
        "Top-1 accuracy on one predictor at a time, within a group of families and a dataset (Fig."
        " 4 of arXiv:2310.11439, which picks the best of many on four to nine points). A point is"
        " an architecture, with the mean over its checkpoints, as these are alike. R2 left out is"
        " that of points left out of the fit one by one. The p of the pick is the chance of so"
        " large an R2 of the best predictor when accuracies change places among families and among"
        " the architectures of each; Holm's correction and q account for all picks of the table."
    )
    columns = (
        *("group", "dataset", "kind", "predictor", "n", TableColumn("families", terminal=None)),
        *("checkpoints", "r2", "r2_left_out"),
        *("slope", "p", "p_picked", "p_corrected", "q", TableColumn("accuracy", terminal=None)),
        "reason",
    )
    unit = (
        "the architecture, within families of them, with the mean over its checkpoints; the image,"
        " for the spread of accuracies"
    )
    computed_by = "analysis.relations.accuracy_regressions:regressions"
    found_by = "analysis.relations.accuracy_regressions:regressions_finding"
    figure = "regression"
    needed = "r2"
    apart = ("dataset", "pooling")
    view = "runs"
    source = (
        *("run_id", "source", "architecture", "family", "family_group", "checkpoint", "dataset"),
        *("pooling", "measured_top1", "images", "reported_top1", "depth", "parameters", "gflops"),
    )

    permutations: int = option(
        9999, "Number of permutations drawn where not all are tried.", minimum=1, maximum=100_000
    )
    seed: int = option(0, "Seed of the permutations.", minimum=0, maximum=LARGEST_SEED)
    all_predictors: bool = option(False, "All predictors, not only the best.", flags=("--all",))
    accuracy: Accuracy = option("measured", "Which top-1 accuracy where both are known.")
    given: Sequence[str] = option(
        (),
        "Tag, such as tags.lr, or number known of models, such as year, as a predictor too; may be"
        " repeated.",
        flags=("--predictor",),
        metavar="NAME",
        repeated=True,
        none="none",
    )

    @property
    def read(self) -> Sequence[str]:
        """The columns of signatures that statistics of a run are computed from."""
        return ("run_id", "role", "affinity")

    @property
    def inputs(self) -> Sequence[Any]:
        """The signatures, and the runs with their accuracies."""
        return self.signatures, self.material.done

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
        return self.statistics, *self.inputs, self.accuracy

    def details(self) -> Sequence[str]:
        """Return what the given predictors explain, and groups that differ by chance alone.

        Random weights that were asked for have no part in it.
        """
        from analysis.data.rows_of_runs import of_runs
        from analysis.relations.accuracy_regressions import LEAST_ARCHITECTURES, given_sentences
        from analysis.relations.accuracy_spread import accuracy_spread, chance_sentences

        # The error of a published accuracy is not recorded.
        given = given_sentences(self.statistics)
        if self.material.selection.takes_untrained:
            given.append(TRAINED_ALONE)
        if self.accuracy != "measured":
            return given
        known = of_runs(self.material.done, self.signatures)
        return [*given, *chance_sentences(accuracy_spread(known), LEAST_ARCHITECTURES)]

    def tables(self) -> Iterator[Table]:
        """Yield the best predictors, and all predictors of groups where a line could be fitted."""
        yield from super().tables()
        every = "Every predictor, in the groups and datasets where any line could be fitted."
        fits = self.statistics.groupby(["group", "dataset"])["r2"].transform("count")
        rows = self.statistics[fits > 0]
        yield Table(f"{self.name}-all", every, rows, self.columns)


@dataclass(frozen=True, eq=False)
class AffinityDistributions(Answer):
    """Whether the distribution of a model's scores has one mode or two."""

    name = page = "distributions"
    command = "compare distributions"
    title = "Distributions"
    caption = "How the affinity scores of each model are spread."
    columns = (
        *("model", "family", "sites", TableColumn("mean", form=fixed(3))),
        *(TableColumn("std", "deviation", fixed(3)), "bimodality_coefficient", "dip"),
        *("n_effective", "dip_p", "p_corrected", "q", "reason"),
    )
    unit = "the effective site of a model"
    computed_by = "analysis.relations.score_shapes:shapes"
    found_by = "analysis.relations.score_shapes:shapes_finding"
    figure = "distribution"

    @property
    def drawn(self) -> Sequence[Any]:
        """The scores, and the statistics of their distributions."""
        return self.signatures, self.statistics
