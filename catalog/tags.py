"""Labels and tags: what users call their runs, and what they note of them.

A label replaces a name in tables and figures. A tag is a name with a value, such as ``lr = 0.1``.
Neither determines a number: they enter no run id, and can change at any time.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from survey.errors import SettingsError
from survey.text import number_in, shortened

TagValue = bool | int | float | str

#: Tags by name.
Tags = Mapping[str, TagValue]

#: What of a run a label is of.
LABELLED = ("model", "checkpoint", "dataset")

#: Characters of the longest label, text of a tag, and name of a survey or schedule.
LONGEST = 200

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")


@dataclass(frozen=True, slots=True)
class RunLabels:
    """The labels and tags of a run."""

    #: Labels of its architecture, its checkpoint and its dataset, where there are any.
    model: str | None = None
    checkpoint: str | None = None
    dataset: str | None = None
    #: Its tags.
    tags: Tags = field(default_factory=dict)

    @property
    def label(self) -> str | None:
        """The labels in a line, such as ``VGG epoch 30 on photographs``; None without any."""
        weights = " ".join(filter(None, (self.model, self.checkpoint)))
        dataset = f"on {self.dataset}" if self.dataset else ""
        return " ".join(filter(None, (weights, dataset))) or None

    def on(self, dataset: str | None, architecture: str) -> RunLabels:
        """Return them with a dataset's label, which alone is no name of a network."""
        alone = dataset is not None and not (self.model or self.checkpoint)
        return replace(self, model=architecture if alone else self.model, dataset=dataset)

    def or_else(self, other: RunLabels) -> RunLabels:
        """Return these labels and tags, and those of the same run elsewhere where these lack."""
        return RunLabels(
            self.model or other.model,
            self.checkpoint or other.checkpoint,
            self.dataset or other.dataset,
            {**other.tags, **self.tags},
        )


def checked_label(label: str) -> str:
    """Return a label.

    Raises
    ------
    SettingsError
        If it is empty, longer than ``LONGEST``, or no line of printable text.
    """
    if not _is_line(label) or not label.strip():
        raise SettingsError(
            f"the label {shortened(repr(label))} must be a line of text, of at most {LONGEST}"
            " characters"
        )
    return label.strip()


def checked_tags(tags: Mapping[str, Any]) -> dict[str, TagValue]:
    """Return tags.

    Raises
    ------
    SettingsError
        If a name or a value is not allowed.
    """
    return {checked_name(name): _checked_value(name, value) for name, value in tags.items()}


def checked_name(name: str) -> str:
    """Return a tag's name: one that stands for a column without quotes.

    Raises
    ------
    SettingsError
        If it is another.
    """
    if not _NAME.fullmatch(name):
        raise SettingsError(
            f"the tag {shortened(repr(name))} must have a name of letters a to z, digits and _, of"
            " at most 64 characters, that begins with a letter",
            hint="write learning_rate, not learning-rate",
        )
    return name


def parsed_tag(text: str) -> tuple[str, TagValue]:
    """Return the tag that a text such as ``lr=0.1`` means; see ``parsed_value``.

    Raises
    ------
    SettingsError
        If it is none.
    """
    name, separator, value = text.partition("=")
    if not separator:
        raise SettingsError(
            f"the tag {shortened(repr(text))} has no value",
            hint=f"write {shortened(name) or 'name'}=value",
        )
    name = checked_name(name.strip())
    return name, _checked_value(name, parsed_value(value.strip()))


def parsed_value(text: str) -> TagValue:
    """Return a value of a tag: a truth value, a number, or a text, which quotes may enclose.

    The number may be one that no tag has, such as ``nan``.
    """
    if text in ("true", "false"):
        return text == "true"
    if len(text) > 1 and text[0] == text[-1] == '"':
        return text[1:-1]
    number = number_in(text)
    return text if number is None else number


def tags_text(tags: Tags) -> str:
    """Return tags in a line, such as ``lr=0.1, seed=0``."""
    return ", ".join(f"{name}={value}" for name, value in tags.items())


def _checked_value(name: str, value: Any) -> TagValue:
    whole = not isinstance(value, int) or abs(value) < 2**63
    finite = not isinstance(value, float) or math.isfinite(value)
    text = not isinstance(value, str) or (_is_line(value) and bool(value))
    if isinstance(value, TagValue) and whole and finite and text:
        return value
    raise SettingsError(
        f"the tag {name} is {shortened(repr(value))}, must be a finite number, a truth value, or a"
        f" line of text, of at most {LONGEST} characters",
        hint=None if finite else f"a text has quotes: {name}='\"{value}\"'",
    )


def _is_line(text: str) -> bool:
    return len(text) <= LONGEST and text.isprintable()
