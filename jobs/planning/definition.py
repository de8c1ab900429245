"""The definition of a survey: models x checkpoints x datasets under settings.

Parses the TOML file and the equivalent command-line options. The catalog resolves the names.
"""

from __future__ import annotations

import dataclasses
import functools
import re
import tomllib
from collections.abc import Collection, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    FiniteFloat,
    NonNegativeInt,
    PositiveInt,
    PrivateAttr,
    ValidationError,
    model_validator,
)

from catalog.bounds import read_at_most
from catalog.datasets import selected_name
from catalog.models.arguments import with_arguments
from survey import MeasureSettings, SettingsError, UnknownName

#: The dataset of a survey that names none.
DEFAULT_DATASET = "digits"

#: Libraries whose change of version makes jobs stale, for surveys that ask for it.
LIBRARIES = ("torch", "torchvision", "timm", "numpy", "scipy", "numba")

#: The installed version of a library.
library_version = functools.cache(version)

#: Bytes of the largest survey file that is read: some ten thousand checkpoints by name.
MOST_BYTES = 2**21

#: Parts of the longest key, such as ``a.b.c``, that is read.
MOST_PARTS = 50
_PART = r"""(?:[\w-]+|"(?:\\.|[^"\\\n])*"|'[^'\n]*')"""
_LONG_KEY = re.compile(rf"(?<![\w-]){_PART}(?:[ \t]*\.[ \t]*{_PART}){{{MOST_PARTS}}}")

#: The keys of a survey file that are lists of tables.
_LISTS = ("models", "datasets")

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


def _listed(value: object) -> list[object]:
    """Return a list as it is, and one value as a list of one."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _libraries(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of libraries in a fixed order, each once."""
    for name in names:
        if name not in LIBRARIES:
            raise UnknownName("library to measure again with", name, LIBRARIES)
    return tuple(library for library in LIBRARIES if library in names)


def _refuse_unknown(kind: str, keys: Iterable[str], known: Collection[str]) -> None:
    for key in keys:
        if key not in known:
            places = [place for place, others in _KEYS.items() if key in others]
            hint = f"{key} is written below {' or '.join(places)}" if places else None
            raise UnknownName(kind, key, known, hint)


Name = Annotated[str, AfterValidator(_require_text)]
Value = bool | int | FiniteFloat | str


class _Table(BaseModel):
    """A table of a survey file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: What one of its keys is called in an error.
    key_kind: ClassVar[str]

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, values: object) -> object:
        _refuse_unknown(cls.key_kind, values if isinstance(values, dict) else (), cls.model_fields)
        return values


class ModelChoice(_Table):
    """One ``[[models]]`` entry."""

    key_kind = "model key"

    #: An architecture (``torchvision:resnet50``), published weights (``ssl:swav_800``), a glob
    #: (``small:digits_*``) or a set (``paper``).
    name: Name
    #: Checkpoints to measure it with; empty means the bundled ones, else the published default.
    checkpoints: Annotated[tuple[Name, ...], BeforeValidator(_listed)] = ()
    #: Arguments of the function of a ``python:`` model; several values of one give a model each.
    args: dict[str, Annotated[tuple[Value, ...], BeforeValidator(_listed)]] = Field(
        default={}, exclude=True
    )

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

    @staticmethod
    def without_args(choices: Iterable[ModelChoice]) -> tuple[ModelChoice, ...]:
        """Return a choice for each combination of arguments, which its name then holds."""
        names = [(each, with_arguments(each.name, each.args)) for each in choices]
        return tuple(
            each.model_copy(update={"name": name, "args": {}})
            for each, several in names
            for name in several
        )


class DatasetChoice(_Table):
    """One ``[[datasets]]`` entry."""

    key_kind = "dataset key"

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


class Definition(_Table):
    """A declared survey."""

    key_kind = "survey key"

    #: Its name in the registry.
    name: Annotated[str, BeforeValidator(str)]
    #: The models; never empty.
    models: Annotated[tuple[ModelChoice, ...], AfterValidator(ModelChoice.without_args)] = ()
    #: The datasets; never empty.
    datasets: tuple[DatasetChoice, ...] = (DatasetChoice(name=DEFAULT_DATASET),)
    #: The settings of the measuring.
    settings: MeasureSettings = MeasureSettings()
    #: Libraries whose change of version makes jobs stale, any of ``LIBRARIES``.
    remeasure: Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(_libraries)] = ()
    _base: Path = PrivateAttr(default_factory=Path.cwd)

    @property
    def base(self) -> Path:
        """The folder that relative paths in it start from, absolute."""
        return self._base

    @property
    def library_versions(self) -> tuple[tuple[str, str], ...]:
        """Name and installed version of each library whose change makes jobs stale."""
        return tuple((library, library_version(library)) for library in self.remeasure)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for the registry."""
        left_out = {"name"} if self.remeasure else {"name", "remeasure"}
        return self.model_dump(mode="json", exclude=left_out)


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
        with path.open("rb") as file:
            text = read_at_most(file, MOST_BYTES, str(path)).decode()
        values = tomllib.loads(_of_short_keys(text))
    except FileNotFoundError:
        raise SettingsError(
            f"there is no survey file {str(path)!r}",
            hint="name a TOML file, or use --model, --checkpoint and --dataset",
        ) from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except RecursionError:
        raise SettingsError(
            f"{path} cannot be read as TOML: its lists and tables are nested too deep"
        ) from None
    except ValueError as error:
        raise SettingsError(f"{path} cannot be read as TOML: {error}") from None
    return parse_definition(values, path.stem, path.parent, settings, remeasure)


def _of_short_keys(text: str) -> str:
    # tomllib takes memory that grows with the square of a key's parts: 200 kB took all there was.
    if _LONG_KEY.search(text):
        raise ValueError(f"a key has more than {MOST_PARTS} parts")
    return text


def parse_definition(
    values: dict[str, Any],
    name: str,
    base: Path,
    settings: dict[str, Any] | None = None,
    remeasure: Sequence[str] = (),
) -> Definition:
    """Check plain values and build a definition from them; see ``read_definition``."""
    declared = values.get("settings", {})
    if not isinstance(declared, dict):
        raise SettingsError(f"settings is {declared!r}, must be a table: [settings]")
    _refuse_unknown("setting", declared, _KEYS["[settings]"])
    given = {
        "name": name,
        # A list of tables without entries stands for the default.
        **{key: value for key, value in values.items() if value != [] or key not in _LISTS},
        "settings": MeasureSettings.from_dict({**declared, **(settings or {})}),
        "remeasure": [*_listed(values.get("remeasure", [])), *remeasure],
    }
    try:
        definition = Definition.model_validate(given)
    except ValidationError as error:
        raise _refusal(error) from None
    if not definition.models:
        raise SettingsError(
            "the survey names no model",
            hint='add [[models]] with name = "small:digits_*", or pass --model',
        )
    # Workers may run in another folder.
    definition._base = base.absolute()
    return definition


#: The keys of a survey file, by where they are written.
_KEYS: dict[str, Collection[str]] = {
    "[[models]]": ModelChoice.model_fields,
    "[[datasets]]": DatasetChoice.model_fields,
    "[settings]": [each.name for each in dataclasses.fields(MeasureSettings)],
    "no heading, at the top": Definition.model_fields.keys() - {"name", "settings"},
}


def _refusal(error: ValidationError) -> SettingsError:
    """Return the first problem that pydantic reports, in the terms of a survey file."""
    problems = error.errors()
    # Of a value that may be of several kinds pydantic names each kind it is not.
    first = next((p for p in problems if not p["type"].endswith("_type")), problems[0])
    keys = {*Definition.model_fields, *ModelChoice.model_fields, *DatasetChoice.model_fields}
    where = ".".join(str(part) for part in first["loc"] if part in keys)
    message = first["msg"].replace("tuple", "list")
    return SettingsError(
        f"{where}: {message} (got {first['input']!r})",
        hint="docs/survey-file.md describes every key",
    )
