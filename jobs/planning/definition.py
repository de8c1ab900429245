"""The definition of a survey: models x checkpoints x datasets under settings.

Parses the TOML file and the equivalent command-line options. The catalog resolves the names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    field_validator,
)

from catalog.datasets import selected_name
from jobs.planning.versions import LIBRARIES
from survey import MeasureSettings, SettingsError, UnknownName

#: The dataset of a survey that names none.
DEFAULT_DATASET = "digits"

Fraction = Annotated[float, Field(ge=0.0, le=1.0)]
Deviation = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]


def _require_text(name: str) -> str:
    """Refuse a name that no store can keep: of a file whose bytes are no text."""
    try:
        name.encode()
    except UnicodeEncodeError:
        raise SettingsError(
            f"{name!r} must be text in UTF-8",
            hint="rename the file or folder, or name it by a link",
        ) from None
    return name


Name = Annotated[str, AfterValidator(_require_text)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ModelChoice(_Strict):
    """One ``[[models]]`` entry."""

    #: An architecture (``torchvision:resnet50``), published weights (``ssl:swav_800``), a glob
    #: (``small:digits_*``) or a set (``paper``).
    name: Name
    #: Checkpoints to measure it with; empty means the bundled ones, else the published default.
    checkpoints: tuple[Name, ...] = ()

    @field_validator("checkpoints", mode="before")
    @classmethod
    def _one_is_a_list_of_one(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    #: Channel means and deviations its checkpoints expect, where they differ from the catalog's.
    mean: tuple[FiniteFloat, FiniteFloat, FiniteFloat] | None = None
    std: tuple[Deviation, Deviation, Deviation] | None = None

    #: Fraction its checkpoints should recognise first, for all datasets or by dataset name. A run
    #: that differs by more than chance is marked suspect.
    expect_top1: Fraction | dict[str, Fraction] | None = None

    def expected(self, dataset: str) -> float | None:
        """Return the accuracy expected on a dataset, where one was declared."""
        if isinstance(self.expect_top1, dict):
            return self.expect_top1.get(dataset)
        return self.expect_top1


class DatasetChoice(_Strict):
    """One ``[[datasets]]`` entry."""

    #: A name such as ``digits``, ``folder:PATH`` or ``imagenet``.
    name: Name
    #: Number of its images to measure; None for all.
    limit: PositiveInt | None = None
    #: Whether the limit takes equally many of every class, not the first of the fixed order.
    stratified: bool = False
    #: Seed of the order of its images; None for the dataset's default order.
    order_seed: NonNegativeInt | None = None

    @property
    def full_name(self) -> str:
        """The name with its limit and order, such as ``cifar10[:1000 stratified order 3]``."""
        return selected_name(
            self.name, self.limit, stratified=self.stratified, order_seed=self.order_seed
        )


_Choice = TypeVar("_Choice", bound=_Strict)


@dataclass(frozen=True, slots=True)
class Definition:
    """A declared survey.

    Parameters
    ----------
    name : str
        Its name in the registry.
    models : tuple of ModelChoice
        The models; never empty.
    datasets : tuple of DatasetChoice
        The datasets; never empty.
    settings : MeasureSettings
        The settings of the measuring.
    base : pathlib.Path
        Folder that relative paths in it start from.
    remeasure : tuple of str
        Libraries whose change of version makes jobs stale, any of ``LIBRARIES``.
    """

    name: str
    models: tuple[ModelChoice, ...]
    datasets: tuple[DatasetChoice, ...] = (DatasetChoice(name=DEFAULT_DATASET),)
    settings: MeasureSettings = field(default_factory=MeasureSettings)
    base: Path = Path()
    remeasure: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for the registry."""
        values = {
            "models": [model.model_dump(mode="json") for model in self.models],
            "datasets": [dataset.model_dump(mode="json") for dataset in self.datasets],
            "settings": self.settings.to_dict(),
        }
        return {**values, "remeasure": list(self.remeasure)} if self.remeasure else values


def read_definition(
    path: Path, settings: dict[str, Any] | None = None, remeasure: Sequence[str] = ()
) -> Definition:
    """Read a survey file.

    Parameters
    ----------
    path : pathlib.Path
        A TOML file with ``[[models]]``, ``[[datasets]]`` and ``[settings]``.
    settings : dict, optional
        Settings given on the command line; they win over the file's.
    remeasure : sequence of str
        Libraries named on the command line, beside the file's.

    Raises
    ------
    SettingsError
        If the file is missing, is not TOML, or holds a key or value that is not allowed.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SettingsError(
            f"there is no survey file {str(path)!r}",
            hint="name a TOML file, or use --model, --checkpoint and --dataset",
        ) from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise SettingsError(f"{path} cannot be read as TOML: {error}") from None
    return parse_definition(values, path.stem, path.parent, settings, remeasure)


def parse_definition(
    values: dict[str, Any],
    name: str,
    base: Path,
    settings: dict[str, Any] | None = None,
    remeasure: Sequence[str] = (),
) -> Definition:
    """Check plain values and build a definition from them; see ``read_definition``."""
    _known("survey key", values, ("name", "models", "datasets", "settings", "remeasure"))
    models = tuple(_parsed(ModelChoice, item) for item in _tables(values, "models"))
    if not models:
        raise SettingsError(
            "the survey names no model",
            hint='add [[models]] with name = "small:digits_*", or pass --model',
        )
    datasets = tuple(_parsed(DatasetChoice, item) for item in _tables(values, "datasets"))
    declared = values.get("settings", {})
    if not isinstance(declared, dict):
        raise SettingsError(f"settings is {declared!r}, must be a table: [settings]")
    return Definition(
        name=str(values.get("name", name)),
        models=models,
        datasets=datasets or (DatasetChoice(name=DEFAULT_DATASET),),
        settings=MeasureSettings.from_dict({**declared, **(settings or {})}),
        base=base,
        remeasure=_libraries([*_names(values, "remeasure"), *remeasure]),
    )


def _names(values: dict[str, Any], key: str) -> list[str]:
    names = values.get(key, [])
    if isinstance(names, str):
        return [names]
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SettingsError(
            f"{key} is {names!r}, must be a list of names", hint=f'write {key} = ["torch"]'
        )
    return names


def _libraries(names: Sequence[str]) -> tuple[str, ...]:
    for name in names:
        if name not in LIBRARIES:
            raise UnknownName("library to measure again with", name, LIBRARIES)
    return tuple(library for library in LIBRARIES if library in names)


def _tables(values: dict[str, Any], key: str) -> list[dict[str, Any]]:
    items = values.get(key, [])
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise SettingsError(f"{key} must be a list of tables: [[{key}]]")
    return items


def _parsed(kind: type[_Choice], item: dict[str, Any]) -> _Choice:
    label = "model key" if kind is ModelChoice else "dataset key"
    _known(label, item, tuple(kind.model_fields))
    try:
        return kind.model_validate(item)
    except ValidationError as error:
        problems = error.errors()
        first = next((p for p in problems if not p["type"].endswith("_type")), problems[0])
        # Of a value that may be of several kinds pydantic names each kind it is not.
        where = ".".join(str(part) for part in first["loc"] if part in kind.model_fields)
        raise SettingsError(f"{label} {where}: {first['msg']} (got {first['input']!r})") from None


def _known(kind: str, values: dict[str, Any], allowed: tuple[str, ...]) -> None:
    for key in values:
        if key not in allowed:
            raise UnknownName(kind, key, allowed)
