"""The options that declare a survey, shared by ``run``, ``plan`` and ``fetch``."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from analysis.option_fields import option
from survey.errors import SettingsError
from survey.settings import (
    ACCELERATOR_PASS,
    FEWEST_BATCHES,
    PROCESSOR_PASS,
    MeasureSettings,
    Pooling,
    Ridge,
    Shrinkage,
)
from survey.text import counted

if TYPE_CHECKING:
    from jobs.planning.definition import Definition

OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Fetch nothing; list missing files and where to put them.")
]


@dataclass(frozen=True, slots=True)
class AllowOptions:
    """The files that surveys from elsewhere may name."""

    allowed: list[Path] | None = option(
        None,
        "Folder below which surveys and schedules sent over HTTP may name files; may be repeated.",
        flags=("--allow",),
        metavar="PATH",
    )

    def folders(self) -> tuple[Path, ...]:
        """Return the folders, resolved.

        Raises
        ------
        SettingsError
            If one is no folder.
        """
        for folder in self.allowed or ():
            if not folder.is_dir():
                raise SettingsError(f"--allow {folder} is no folder", hint="name one that exists")
        return tuple(each.resolve() for each in self.allowed or ())


_SETTINGS = {each.name: each.default for each in dataclasses.fields(MeasureSettings)}


def _setting(name: str, text: str) -> Any:
    """Return the option of a setting, whose default a survey file may replace."""
    return option(None, text, none=str(_SETTINGS[name]))


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """The options of models, checkpoints and datasets, or of a survey file."""

    file: Path | None = option(None, "Survey file.", metavar="FILE.toml", positional=True)
    model: list[str] | None = option(
        None,
        "Architecture, published weights, glob or set of models; may be repeated.",
        flags=("--model", "-m"),
    )
    checkpoint: list[str] | None = option(
        None,
        "Weights: bundled, default, init:SEED, file:PATH or file:PATH#PART (quote a glob of several"
        " files), hf://OWNER/REPOSITORY or a tag; may be repeated.",
        none="bundled, else the published default",
        flags=("--checkpoint", "-c"),
    )
    dataset: list[str] | None = option(
        None,
        "Dataset, such as digits, folder:PATH or imagenet (survey datasets lists them); may be"
        " repeated.",
        none="digits",
        flags=("--dataset", "-d"),
    )

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
    """The options of a survey: its models, datasets and settings."""

    images_per_score: str | None = _setting(
        "images_per_score", "Images in one score; auto: as many as the network's widest site needs."
    )
    micro_batch: str | None = _setting(
        "micro_batch",
        f"Images in one forward pass; auto: {PROCESSOR_PASS} on a processor, {ACCELERATOR_PASS} on"
        " a GPU.",
    )
    shrinkage: Shrinkage | None = _setting("shrinkage", "Covariance estimator.")
    ridge: Ridge | None = _setting("ridge", "What is added to variances.")
    pooling: Pooling | None = _setting("pooling", "Pooling over space.")
    metrics: str | None = option(
        None,
        "Metrics to compute, such as affinity,cka, the affinity among them; the others have no"
        " value.",
        none="all",
        metavar="NAME,...",
    )
    limit: int | None = option(None, "Images of each dataset.", none="all")
    stratified: bool = option(False, "With --limit: equally many images of every class.")
    order_seed: int | None = option(
        None, "Seed of the order of the images.", none="0, the dataset's order"
    )
    precision: float | None = option(
        None,
        "Standard error of every site's mean affinity at which a job stops early; its 95 % interval"
        " is then some 2.3 times as far to either side, further to one where scores are skewed.",
        none="none: all images are measured",
    )
    least_batches: int | None = _setting(
        "least_batches",
        f"Batches to measure before --precision counts, not below {FEWEST_BATCHES}.",
    )
    remeasure: list[str] | None = option(
        None,
        "Library, such as torch, of which another version makes runs stale; may be repeated.",
    )
    measures: list[str] | None = option(
        None,
        "Measure of whole networks, such as path_length, beside the signatures; may be repeated."
        " Runs that are measured already get it added.",
    )
    expect_top1: float | None = option(
        None, "Accuracy from 0 to 1; runs that differ from it are marked suspect."
    )
    label: list[str] | None = option(
        None,
        "Name in tables and figures: of each --checkpoint in turn, or of each --model where none is"
        " given; may be repeated.",
    )
    tag: list[str] | None = option(
        None,
        "Tag of all runs, such as lr=0.1: a number, true, false or text; may be repeated.",
        metavar="NAME=VALUE",
    )

    def definition(self) -> Definition:
        """Return the survey that the file or the options declare.

        Every model named is measured with every checkpoint on every dataset. A file excludes the
        names and what belongs to them; settings win over its own, tags over those of the survey,
        and libraries are added to its own.

        Raises
        ------
        SettingsError
            If neither or both are given, or what they hold is not allowed.
        """
        from catalog.tags import parsed_tag
        from jobs.planning.definition import parse_definition, read_definition

        settings = _given({name: getattr(self, name) for name in _SETTINGS})
        tags = dict(map(parsed_tag, self.tag or ()))
        for name in ("images_per_score", "micro_batch"):
            if settings.get(name, "").isdecimal():
                settings[name] = int(settings[name])
        if self.file is not None:
            self._refuse_names()
            return read_definition(
                self.file, settings, self.remeasure or (), tags, self.measures or ()
            )
        if not self.model:
            raise SettingsError(
                "nothing to measure was named",
                hint="name a survey file, or pass --model, e.g. --model 'small:digits_*'",
            )
        values = {
            "models": self._models(),
            "datasets": self._datasets(),
            "tags": tags,
            "measures": self.measures or [],
        }
        libraries = self.remeasure or ()
        return parse_definition(values, "command line", Path(), settings, libraries, crossed=True)

    def _refuse_names(self) -> None:
        """Refuse what a survey file says itself."""
        names = (self.model, self.checkpoint, self.dataset, self.stratified, self.label)
        parts = (self.limit, self.order_seed, self.expect_top1)
        if any(names) or any(part is not None for part in parts):
            raise SettingsError(
                "a survey file excludes --model, --checkpoint, --dataset, --limit,"
                " --stratified, --order-seed, --expect-top1 and --label",
                hint="put them into the file, or leave the file out",
            )

    def _models(self) -> list[dict[str, Any]]:
        """Return the models with their checkpoints and labels, as a survey file has them."""
        models: list[dict[str, Any]] = [{"name": name} for name in self.model or ()]
        checkpoints: list[dict[str, Any]] = [{"ref": ref} for ref in self.checkpoint or ()]
        labelled, option = (checkpoints, "--checkpoint") if checkpoints else (models, "--model")
        if self.label:
            if len(self.label) != len(labelled):
                raise SettingsError(
                    f"--label is given {counted(len(self.label), 'time')} and {option}"
                    f" {counted(len(labelled), 'time')}",
                    hint=f"give one --label for each {option}, in their order",
                )
            labelled[:] = [
                each | {"label": label} for each, label in zip(labelled, self.label, strict=True)
            ]
        expected = _given({"expect_top1": self.expect_top1})
        return [{**each, "checkpoints": checkpoints, **expected} for each in models]

    def _datasets(self) -> list[dict[str, Any]]:
        """Return the datasets, as a survey file has them."""
        from jobs.planning.definition import DEFAULT_DATASET

        parts = _given({"limit": self.limit, "order_seed": self.order_seed})
        names = self.dataset or [DEFAULT_DATASET]
        return [{"name": name, "stratified": self.stratified, **parts} for name in names]


def _given(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values that were given."""
    return {name: value for name, value in values.items() if value is not None}
