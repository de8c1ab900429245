"""Contrasts of signatures: shortcuts, datasets, checkpoints, training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from analysis.answers.base import CURVE, Answer
from analysis.answers.columns import Table, TableColumn
from analysis.choices import PAPER_METRICS
from analysis.option_fields import option
from analysis.text import fixed, probability, whole


@dataclass(frozen=True, eq=False)
class ShortcutContrast(Answer):
    """Sites after a shortcut against the other sites of the network."""

    name = page = "residual"
    command = "compare residual"
    title = "Residual or plain"
    caption = "Sites after an addition against the others."
    columns: ClassVar[Sequence[str | TableColumn]] = (
        *("level", "model", TableColumn("dataset", terminal=None)),
        TableColumn("n", meaning="networks"),
        TableColumn("after", meaning="sites that take the sum of a block and its shortcut"),
        *("others", "mean_after", "mean_others", "median_after", "median_others"),
        TableColumn("difference", "difference of means", fixed(3)),
        *("cliffs_delta", TableColumn("p", form=probability, meaning="sign flips"), "reason"),
    )
    unit = "the network: each architecture counts once, with the mean over its checkpoints"
    computed_by = "analysis.contrasts.residual_networks:residual_contrast"
    found_by = "analysis.contrasts.residual_networks:residual_finding"
    figure = file = "residual"
    all_sites = True
    apart = ("dataset", "pooling")

    @property
    def drawn_with(self) -> dict[str, Any]:
        """Whether random weights count in the figure's sentences."""
        return {"untrained": self.material.selection.takes_untrained}


@dataclass(frozen=True, eq=False)
class PlainTwins(ShortcutContrast):
    """Residual networks against plain ones that differ in the shortcuts alone."""

    name = "twins"
    command = "compare twins"
    caption = "Residual networks against plain twins, which differ in the shortcuts alone."
    columns = (
        *("level", "residual", "plain", "checkpoint", "dataset"),
        TableColumn("n", meaning="sites of a pair; pairs of all"),
        *("median_residual", "median_plain", "difference", "std_residual", "std_plain"),
        *(TableColumn("p", form=probability, meaning="sign flips"), "reason"),
    )
    unit = "the pair of twins: each architecture counts once, with the mean over its checkpoints"
    computed_by = "analysis.contrasts.residual_networks:twins"
    found_by = "analysis.contrasts.residual_networks:twins_finding"


@dataclass(frozen=True, eq=False)
class DatasetDeviations(Answer):
    """How far the signature of a network on one dataset is from that on another."""

    name = page = "datasets"
    command = "compare datasets"
    title = "Datasets"
    caption = "Deviation from the signature on the reference, model by model."
    columns = (
        *("model", "dataset", "reference", "sites", "dtw", "euclidean", "mean_difference"),
        *(TableColumn("run_id", terminal=None), "reason"),
    )
    computed_by = "analysis.contrasts.datasets:dataset_deviations"
    found_by = "analysis.contrasts.datasets:datasets_finding"
    figure = "dataset"
    needed = "dtw"
    apart = ("dataset", "pooling")

    reference: str | None = option(
        None,
        "Dataset that the others are compared with.",
        none="that of most models with several",
    )

    def tables(self) -> Iterator[Table]:
        """Yield the means over models, and the models."""
        from analysis.contrasts.datasets import dataset_summary

        columns = ("dataset", "reference", "n", "dtw", "dtw_std", "euclidean", "euclidean_std")
        caption = "Deviation from the signature on the reference, mean over models."
        yield Table("datasets-mean", caption, dataset_summary(self.statistics), columns)
        yield from super().tables()


@dataclass(frozen=True, eq=False)
class CheckpointRobustness(Answer):
    """How alike the checkpoints of an architecture are, metric by metric."""

    name = page = "checkpoints"
    command = "compare checkpoints"
    title = "Checkpoints"
    caption = "Each metric's mean over sites, over the checkpoints of one architecture."
    columns = (
        *("source", "architecture", "dataset", "metric"),
        TableColumn("n", "", whole, "checkpoints with a value"),
        *("mean", "std", "relative_std", TableColumn("lowest"), TableColumn("highest")),
        *("correlation", "correlation_lowest", "reason"),
    )
    computed_by = "analysis.contrasts.checkpoints:robustness"
    found_by = "analysis.contrasts.checkpoints:robustness_finding"
    figure = "robustness"
    needed = "relative_std"
    source = (*CURVE, *PAPER_METRICS)
    apart = ("dataset", "pooling")


@dataclass(frozen=True, eq=False)
class TrainingShift(Answer):
    """Trained networks against random initialisations of the same architecture."""

    name = page = figure = "training"
    command = "compare training"
    title = "Training"
    caption = "Trained networks against random initialisations of the same architecture."
    columns = (
        *("level", "model", "family", "dataset", "initial", "trained"),
        *(TableColumn("n", meaning="networks"), "sites", "mean_initial"),
        *("mean_trained", "shift", "lowered", "trend_initial", "trend_trained", "dtw"),
        *("euclidean", TableColumn("p", form=probability, meaning="sign flips"), "reason"),
    )
    unit = "the network: each architecture counts once, with the mean over its pairs"
    computed_by = "analysis.contrasts.training_shift:training_shift"
    found_by = "analysis.contrasts.training_shift:training_finding"
    needed = "shift"
    all_sites = True
    apart = ("dataset", "pooling")
    untrained = True
