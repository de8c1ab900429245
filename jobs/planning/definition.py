"""The definition of a survey: models x checkpoints x datasets under settings.

Parses the TOML file and the equivalent command-line options. The catalog resolves the names.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationError

from catalog.bounds import parse_toml, read_at_most
from catalog.tags import LONGEST, TagValue
from jobs.planning.survey_tables import (
    SETTINGS,
    CheckpointChoice,
    DatasetChoice,
    ModelChoice,
    Name,
    SurveyTable,
    Tags,
    listed,
    refuse_unknown,
)
from survey import MeasureSettings, SettingsError, UnknownName
from survey.metrics import with_known_metrics
from survey.network_measures import MEASURES
from survey.text import shortened

#: The dataset of a survey that names none.
DEFAULT_DATASET = "digits"

#: Libraries whose change of version makes jobs stale, for surveys that ask for it.
LIBRARIES = ("torch", "torchvision", "timm", "numpy", "scipy")

#: The installed version of a library.
library_version = functools.cache(version)

#: Bytes of the largest survey file that is read: some ten thousand checkpoints by name.
MOST_BYTES = 2**21

#: The keys of a survey file that are lists of tables.
_LISTS = ("models", "datasets")


def _libraries(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of libraries in a fixed order, each once."""
    for name in names:
        if name not in LIBRARIES:
            raise UnknownName("library to measure again with", name, LIBRARIES)
    return tuple(library for library in LIBRARIES if library in names)


def _measures(names: Sequence[str]) -> tuple[str, ...]:
    """Return names of measures in a fixed order, each once."""
    known = [measure.name for measure in MEASURES]
    for name in names:
        if name not in known:
            raise UnknownName("measure", name, known)
    return tuple(measure for measure in known if measure in names)


class Definition(SurveyTable):
    """A declared survey."""

    key_kind = "survey key"
    place = "no heading, at the top"
    sought_elsewhere = ("name", "settings")

    #: Its name in the registry. One that is declared has at most ``LONGEST`` characters.
    name: Name
    #: The models; never empty.
    models: Annotated[tuple[ModelChoice, ...], AfterValidator(ModelChoice.without_args)] = ()
    #: The datasets; never empty.
    datasets: tuple[DatasetChoice, ...] = (DatasetChoice(name=DEFAULT_DATASET),)
    #: The settings of the measuring.
    settings: MeasureSettings = MeasureSettings()
    #: Libraries whose change of version makes jobs stale, any of ``LIBRARIES``.
    remeasure: Annotated[tuple[str, ...], BeforeValidator(listed), AfterValidator(_libraries)] = ()
    #: Measures of whole networks beside the signatures, as ``survey.network_measures`` names them.
    measures: Annotated[tuple[str, ...], BeforeValidator(listed), AfterValidator(_measures)] = ()
    #: Tags of all its runs.
    tags: Tags = Field(default_factory=dict)
    _base: Path = PrivateAttr(default_factory=Path.cwd)
    _crossed: bool = PrivateAttr(default=False)
    _origin: str | None = PrivateAttr(default=None)
    _by_hand: frozenset[str] = PrivateAttr(default=frozenset())

    @property
    def base(self) -> Path:
        """The folder that relative paths in it start from, absolute."""
        return self._base

    @property
    def crossed(self) -> bool:
        """Whether every model was named once for all checkpoints: not every pair was meant."""
        return self._crossed

    @property
    def origin(self) -> str | None:
        """The file or the schedule that declares it; None where it was given by hand."""
        return self._origin

    @property
    def by_hand(self) -> frozenset[str]:
        """The names of tags that were given beside its file."""
        return self._by_hand

    @property
    def library_versions(self) -> tuple[tuple[str, str], ...]:
        """Name and installed version of each library whose change makes jobs stale."""
        return tuple((library, library_version(library)) for library in self.remeasure)

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain values, for the registry."""
        unused = {name for name in ("remeasure", "measures") if not getattr(self, name)}
        return self.model_dump(mode="json", exclude={"name"} | unused)


def read_definition(
    path: Path,
    settings: dict[str, Any] | None = None,
    remeasure: Sequence[str] = (),
    tags: Mapping[str, TagValue] | None = None,
    measures: Sequence[str] = (),
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
    tags : mapping of str to TagValue, optional
        Tags of all runs given on the command line; they win over those at the file's top.
    measures : sequence of str
        Measures of whole networks named on the command line, beside the file's.

    Raises
    ------
    SettingsError
        If the file is missing, is not TOML, or holds a key or value that is not allowed.
    """
    try:
        with path.open("rb") as file:
            text = read_at_most(file, MOST_BYTES, str(path)).decode("utf-8-sig")
        values = parse_toml(text)
    except FileNotFoundError:
        raise SettingsError(
            f"there is no survey file {str(path)!r}",
            hint="name a TOML file that exists",
        ) from None
    except OSError as error:
        raise SettingsError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError as error:
        raise SettingsError(f"{path} cannot be read as TOML: {error}") from None
    origin = str(path.absolute())
    if measures:
        values["measures"] = [*listed(values.get("measures", [])), *measures]
    definition = parse_definition(
        values, path.stem, path.parent, settings, remeasure, tags, origin=origin
    )
    require_expected(definition)
    return definition


def parse_definition(
    values: dict[str, Any],
    name: str,
    base: Path,
    settings: dict[str, Any] | None = None,
    remeasure: Sequence[str] = (),
    tags: Mapping[str, TagValue] | None = None,
    *,
    crossed: bool = False,
    origin: str | None = None,
) -> Definition:
    """Check plain values and build a definition from them; see ``read_definition``."""
    own = values.get("name")
    if isinstance(own, str) and len(own) > LONGEST:
        raise SettingsError(
            f"the survey's name {shortened(repr(own))} has {len(own):,} characters, must have at"
            f" most {LONGEST}",
            hint="choose a shorter name",
        )
    declared = _table(values, "settings")
    refuse_unknown("setting", declared, SETTINGS)
    given = {
        "name": name,
        # A list of tables without entries stands for the default.
        **{key: value for key, value in values.items() if value != [] or key not in _LISTS},
        "settings": with_known_metrics(MeasureSettings.from_dict({**declared, **(settings or {})})),
        "remeasure": [*listed(values.get("remeasure", [])), *remeasure],
    }
    if tags:
        given["tags"] = {**_table(values, "tags"), **tags}
    try:
        definition = Definition.model_validate(given)
    except ValidationError as error:
        raise _refusal(error) from None
    if not definition.models:
        raise SettingsError(
            "the survey names no model",
            hint='add [[models]] with name = "small:digits_*"',
        )
    # Workers may run in another folder.
    definition._base = base.absolute()
    definition._crossed, definition._origin = crossed, origin
    definition._by_hand = frozenset(tags or ())
    return definition


def require_expected(definition: Definition) -> None:
    """Refuse an expected accuracy on a dataset that the survey does not have.

    Raises
    ------
    UnknownName
        If there is one.
    """
    names = [dataset.name for dataset in definition.datasets]
    for model in definition.models:
        for name in model.expect_top1 if isinstance(model.expect_top1, dict) else ():
            if name not in names:
                raise UnknownName("dataset in expect_top1", name, names)


def _table(values: dict[str, Any], key: str) -> dict[str, Any]:
    table = values.get(key, {})
    if not isinstance(table, dict):
        raise SettingsError(f"{key} is {table!r}, must be a table: [{key}]")
    return table


def _refusal(error: ValidationError) -> SettingsError:
    """Return the first problem that pydantic reports, in the terms of a survey file."""
    problems = error.errors()
    # Of a value that may be of several kinds pydantic names each kind it is not.
    first = next((p for p in problems if not p["type"].endswith("_type")), problems[0])
    tables = (Definition, ModelChoice, CheckpointChoice, DatasetChoice)
    keys = {key for table in tables for key in table.model_fields}
    where = ".".join(str(part) for part in first["loc"] if part in keys)
    message = first["msg"].replace("tuple", "list").replace("dictionary", "table")
    return SettingsError(
        f"{where}: {message} (got {first['input']!r})",
        hint="docs/survey-file.md describes every key",
    )
