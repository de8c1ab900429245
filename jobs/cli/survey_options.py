"""The options that say what to measure, shared by ``run``, ``plan`` and ``fetch``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from survey.errors import SettingsError
from survey.settings import MeasureSettings

if TYPE_CHECKING:
    from jobs.planning.definition import Definition

OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Fetch nothing; list missing files and where to put them.")
]

_SETTINGS = {each.name: each.default for each in dataclasses.fields(MeasureSettings)}


def _setting(name: str, text: str) -> Any:
    """Return the option of a setting; a survey file may hold another default."""
    return typer.Option(help=text, show_default=str(_SETTINGS[name]))


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which models are measured on which datasets: a survey file, or names."""

    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE.toml", help="Survey file.", show_default=False),
    ] = None
    model: Annotated[
        list[str] | None,
        typer.Option(
            "--model",
            "-m",
            help="Architecture, published weights, glob or set of models; may be repeated.",
        ),
    ] = None
    checkpoint: Annotated[
        list[str] | None,
        typer.Option(
            "--checkpoint",
            "-c",
            help="Weights: bundled, default, init:SEED, file:PATH or a tag; may be repeated.",
            show_default="bundled, else the published default",
        ),
    ] = None
    dataset: Annotated[
        list[str] | None,
        typer.Option(
            "--dataset",
            "-d",
            help="Dataset, such as digits, folder:PATH or imagenet (survey datasets lists them);"
            " may be repeated.",
            show_default="digits",
        ),
    ] = None

    def definition(self) -> Definition:
        """Return the survey that the file or the names declare.

        Raises
        ------
        SettingsError
            If neither or both are given, or what they hold is not allowed.
        """
        return SurveyOptions(self.file, self.model, self.checkpoint, self.dataset).definition()


@dataclass(frozen=True, slots=True)
class SurveyOptions(ModelOptions):
    """What is measured, and how."""

    images_per_score: Annotated[
        int | None, _setting("images_per_score", "Images in one score.")
    ] = None
    micro_batch: Annotated[int | None, _setting("micro_batch", "Images in one forward pass.")] = (
        None
    )
    shrinkage: Annotated[
        str | None, _setting("shrinkage", "Covariance estimator: ledoit-wolf or none.")
    ] = None
    ridge: Annotated[
        str | None, _setting("ridge", "What is added to variances: absolute or relative.")
    ] = None
    pooling: Annotated[
        str | None,
        _setting("pooling", "Pooling over space: mean, pre, sum, flatten or public_code."),
    ] = None
    limit: Annotated[
        int | None,
        typer.Option("--limit", help="Images of each dataset.", show_default="all"),
    ] = None
    stratified: Annotated[
        bool, typer.Option("--stratified", help="With --limit: equally many images of every class.")
    ] = False
    order_seed: Annotated[
        int | None,
        typer.Option(
            "--order-seed",
            help="Seed of the order of the images.",
            show_default="0, the dataset's order",
        ),
    ] = None
    precision: Annotated[
        float | None,
        typer.Option(
            "--precision",
            help="Standard error of every site's affinity at which a job stops early.",
            show_default="none: all images are measured",
        ),
    ] = None
    least_batches: Annotated[
        int | None, _setting("least_batches", "Batches to measure before --precision counts.")
    ] = None
    remeasure: Annotated[
        list[str] | None,
        typer.Option(
            "--remeasure",
            help="Library, such as torch, of which another version makes runs stale; may be"
            " repeated.",
        ),
    ] = None
    expect_top1: Annotated[
        float | None,
        typer.Option(
            "--expect-top1",
            help="Accuracy from 0 to 1; runs that differ from it are marked suspect.",
        ),
    ] = None

    def definition(self) -> Definition:
        """Return the survey that the file or the options declare.

        Every model named is measured with every checkpoint on every dataset. A file excludes the
        names and what belongs to them; settings win over its own, and libraries are added to its
        own.

        Raises
        ------
        SettingsError
            If neither or both are given, or what they hold is not allowed.
        """
        from jobs.planning.definition import DEFAULT_DATASET, parse_definition, read_definition

        settings = _given({name: getattr(self, name) for name in _SETTINGS})
        parts = _given({"limit": self.limit, "order_seed": self.order_seed})
        expected = _given({"expect_top1": self.expect_top1})
        libraries = self.remeasure or ()
        if self.file is not None:
            names = (self.model, self.checkpoint, self.dataset, self.stratified)
            if any(names) or parts or expected:
                raise SettingsError(
                    "a survey file excludes --model, --checkpoint, --dataset, --limit,"
                    " --stratified, --order-seed and --expect-top1",
                    hint="put them into the file, or leave the file out",
                )
            return read_definition(self.file, settings, libraries)
        if not self.model:
            raise SettingsError(
                "nothing to measure was named",
                hint="name a survey file, or pass --model, e.g. --model 'small:digits_*'",
            )
        parts["stratified"] = self.stratified
        checkpoints, datasets = self.checkpoint or [], self.dataset or [DEFAULT_DATASET]
        values = {
            "models": [{"name": n, "checkpoints": checkpoints, **expected} for n in self.model],
            "datasets": [{"name": n, **parts} for n in datasets],
        }
        return parse_definition(values, "command line", Path(), settings, libraries)


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
