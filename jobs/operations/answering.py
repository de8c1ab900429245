"""Answers to questions as the command line and the service give them: rows and sentences."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from analysis.answers import Answer
from analysis.answers.material import Material
from survey.errors import SettingsError


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """What an answer gives beside its figures."""

    #: A pandas.DataFrame of all columns, with the unit of replication where it has p-values.
    rows: Any
    #: Which settings of runs meet in it that do not compare; empty where none do.
    warning: str
    #: The result in a sentence.
    finding: str
    #: How it was computed, in sentences.
    details: list[str]
    #: What is left out, in sentences.
    notes: list[str]
    #: What it was made from.
    caption: str


def given_answer(answer: Answer) -> GivenAnswer:
    """Return what an answer gives; it is computed now."""
    from analysis.data.provenance import banner, provenance_of
    from analysis.text import sentence

    rows = answer.rows
    if answer.unit:
        rows = rows.assign(unit=answer.unit)
    made_from = provenance_of(rows)
    warning = banner(made_from.mixed, answer.apart)
    return GivenAnswer(
        rows,
        sentence(warning) if warning else "",
        sentence(answer.finding()),
        [*map(sentence, answer.details()), *answer.replication()],
        list(map(sentence, made_from.notes())),
        made_from.caption(),
    )


def require_sites(material: Material, columns: Iterable[str]) -> None:
    """Refuse a selection without any site of a finished run.

    Parameters
    ----------
    material : Material
        The frames of the selection.
    columns : iterable of str
        Columns that will be asked for: sites are read once with them, not twice.

    Raises
    ------
    SettingsError
        If there is none.
    """
    if len(material.sites(columns)):
        return
    statuses = list(material.models["status"])
    if not statuses:
        raise SettingsError(
            f"nothing was measured in {material.home} yet",
            hint="survey run measures; survey demo measures eight small networks in a minute",
        )
    if "done" not in statuses:
        raise SettingsError(
            f"none of {len(statuses)} selected runs in {material.home} has finished",
            hint="survey status shows how far they are, and what failed",
        )
    raise SettingsError(
        f"no selected run has {material.role} sites", hint="leave out the option role"
    )
