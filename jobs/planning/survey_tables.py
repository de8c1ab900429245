"""The tables of a survey file: what may be declared of models, checkpoints and datasets."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
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
    SerializerFunctionWrapHandler,
    StrictBool,
    model_serializer,
    model_validator,
)

from catalog.datasets import selected_name
from catalog.models.arguments import with_arguments
from catalog.tags import checked_label, checked_tags
from survey import MeasureSettings, SettingsError, UnknownName
from survey.text import counted

#: The keys of the settings.
SETTINGS = [each.name for each in dataclasses.fields(MeasureSettings)]

Fraction = Annotated[float, Field(strict=True, ge=0.0, le=1.0)]
Mean = Annotated[float, Field(strict=True, allow_inf_nan=False)]
Deviation = Annotated[Mean, Field(gt=0.0)]
Channels = Field(min_length=1, max_length=3)


def require_text(name: str) -> str:
    """Refuse a name that no store can keep, such as that of a file whose bytes are no text."""
    if "\0" in name or any("\ud800" <= character <= "\udfff" for character in name):
        raise SettingsError(
            f"{name!r} must be text in UTF-8, without NUL",
            hint="rename the file or folder, or name it by a link",
        )
    return name


def listed(value: object) -> list[object]:
    """Return a list as it is, and one value as a list of one."""
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _checkpoints(value: object) -> list[object]:
    """Return checkpoints as tables, also one alone and those that are named as text."""
    tables = [{"ref": each} if isinstance(each, str) else each for each in listed(value)]
    for each in tables:
        if not isinstance(each, (dict, CheckpointChoice)):
            raise SettingsError(
                f"models.checkpoints: {each!r} is no checkpoint",
                hint='write "init:0", or { ref = "file:PATH", label = "...", tags = { lr = 0.1 } }',
            )
    return tables


Name = Annotated[str, AfterValidator(require_text)]
Value = bool | int | FiniteFloat | str
Label = Annotated[str, AfterValidator(checked_label)]
Tags = Annotated[dict[str, Any], AfterValidator(checked_tags)]


def require_one(label: str | None, name: str, noun: str, number: int) -> None:
    """Refuse a label that several would have."""
    if label is not None and number > 1:
        raise SettingsError(
            f"the label {label!r} would be that of {counted(number, noun)}: {name!r} names as many",
            hint=f"label each {noun} in an entry of its own; tags may be shared",
        )


def refuse_unknown(kind: str, keys: Iterable[str], known: Collection[str]) -> None:
    """Refuse a key that a table does not have, with the places that it is written at."""
    places: dict[str, Collection[str]] = {
        table.place: set(table.model_fields).difference(table.sought_elsewhere)
        for table in SurveyTable.__subclasses__()
    }
    places["[settings]"] = SETTINGS
    for key in keys:
        if key not in known:
            where = [place for place, others in places.items() if key in others]
            hint = f"{key} is written below {' or '.join(where)}" if where else None
            raise UnknownName(kind, key, known, hint)


class SurveyTable(BaseModel):
    """A table of a survey file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    #: What one of its keys is called in an error.
    key_kind: ClassVar[str]
    #: Where its keys are written, and which of them are no hint there.
    place: ClassVar[str]
    sought_elsewhere: ClassVar[tuple[str, ...]] = ()

    @model_validator(mode="before")
    @classmethod
    def _refuse_unknown_keys(cls, values: object) -> object:
        refuse_unknown(cls.key_kind, values if isinstance(values, dict) else (), cls.model_fields)
        return values

    @model_serializer(mode="wrap")
    def _without_blanks(self, serialize: SerializerFunctionWrapHandler) -> Any:
        """Leave labels and tags out where there are none: older records of surveys lack them."""
        values = serialize(self)
        blank = [name for name in ("label", "tags") if not values.get(name, True)]
        return {name: value for name, value in values.items() if name not in blank}


class CheckpointChoice(SurveyTable):
    """One of the checkpoints of a ``[[models]]`` entry."""

    key_kind = "checkpoint key"
    place = "checkpoints = [{ ... }]"

    #: ``bundled``, ``default``, ``init:SEED``, ``file:PATH`` or published weights.
    ref: Name
    #: What tables and figures call it.
    label: Label | None = None
    #: Tags of its runs; they win over the model's.
    tags: Tags = Field(default_factory=dict)

    @model_serializer(mode="wrap")
    def _as_text(self, serialize: SerializerFunctionWrapHandler) -> Any:
        """Give the reference alone where nothing is declared of it."""
        values = self._without_blanks(serialize)
        return self.ref if values.keys() == {"ref"} else values


class ModelChoice(SurveyTable):
    """One ``[[models]]`` entry."""

    key_kind = "model key"
    place = "[[models]]"

    #: An architecture (``torchvision:resnet50``), published weights (``ssl:swav_800``), a glob
    #: (``small:digits_*``) or a set (``paper``).
    name: Name
    #: Checkpoints to measure it with; empty means the bundled ones, else the published default.
    checkpoints: Annotated[tuple[CheckpointChoice, ...], BeforeValidator(_checkpoints)] = ()

    #: Arguments of the function of a ``python:`` model; several values of one give a model each.
    args: dict[str, Annotated[tuple[Value, ...], BeforeValidator(listed)]] = Field(
        default={}, exclude=True
    )

    #: What tables and figures call it.
    label: Label | None = None
    #: Tags of its runs; they win over the survey's.
    tags: Tags = Field(default_factory=dict)

    #: Channel means and deviations its checkpoints expect, where they differ from the catalog's.
    mean: Annotated[tuple[Mean, ...], Channels] | None = None
    std: Annotated[tuple[Deviation, ...], Channels] | None = None

    #: Fraction its trained checkpoints should recognise first, for all datasets or by dataset name.
    #: A run that differs by more than chance is marked suspect.
    expect_top1: Fraction | dict[str, Fraction] | None = None

    def expected(self, dataset: str) -> float | None:
        """Return the accuracy expected on a dataset, where one was declared."""
        if isinstance(self.expect_top1, dict):
            return self.expect_top1.get(dataset)
        return self.expect_top1

    @staticmethod
    def without_args(choices: Iterable[ModelChoice]) -> tuple[ModelChoice, ...]:
        """Return a choice for each combination of arguments, which its name then holds."""
        names = [(each, [*with_arguments(each.name, each.args)]) for each in choices]
        for each, several in names:
            require_one(each.label, each.name, "model", len(several))
        return tuple(
            each.model_copy(update={"name": name}) for each, several in names for name in several
        )


class DatasetChoice(SurveyTable):
    """One ``[[datasets]]`` entry."""

    key_kind = "dataset key"
    place = "[[datasets]]"

    #: A name such as ``digits``, ``folder:PATH`` or ``imagenet``.
    name: Name
    #: Number of its images to measure; None for all.
    limit: Annotated[PositiveInt, Field(strict=True)] | None = None
    #: Whether the limit takes equally many of every class, not the first of the fixed order.
    stratified: StrictBool = False
    #: Seed of the order of its images; None for the dataset's default order.
    order_seed: Annotated[NonNegativeInt, Field(strict=True)] | None = None
    #: What tables and figures call it.
    label: Label | None = None

    @property
    def full_name(self) -> str:
        """The name with its limit and order, such as ``cifar10[:1000 stratified order 3]``."""
        return selected_name(
            self.name, self.limit, stratified=self.stratified, order_seed=self.order_seed
        )
