"""Conditions: the settings of a measurement that its scores depend on.

Owns what must be equal for two runs' scores to compare, and the words for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

#: Columns of ``runs``: how many images a score is made of, and how its covariances are estimated.
#: The pooling is another, which names what was measured.
CONDITIONS = ("images_per_score", "shrinkage", "ridge")

#: What goes without saying.
_USUAL = {"shrinkage": "ledoit-wolf", "ridge": "absolute"}


def conditions(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return each way in which some runs were measured, in words; one where all compare.

    Parameters
    ----------
    runs : iterable of mapping
        Rows of ``runs`` with the columns of ``CONDITIONS``.

    Returns
    -------
    list of str
        Such as ``512 images a score`` or ``128 images a score, shrinkage none``.
    """
    # No settings are known of a run that was never begun.
    met = {tuple(run[name] for name in CONDITIONS) for run in runs if run["images_per_score"]}
    return [_words(dict(zip(CONDITIONS, each, strict=True))) for each in sorted(met, key=str)]


def _words(values: Mapping[str, Any]) -> str:
    known = {name: values[name] for name in _USUAL if values[name] is not None}
    unusual = [f"{name} {value}" for name, value in known.items() if value != _USUAL[name]]
    return ", ".join((f"{values['images_per_score']} images a score", *unusual))


def mixed(ways: Iterable[str]) -> str | None:
    """Return a warning where runs were measured in several ways; None where they compare.

    Parameters
    ----------
    ways : iterable of str
        What ``conditions`` returned.
    """
    told = list(ways)
    if len(told) < 2:
        return None
    return (
        f"these runs were measured in {len(told)} ways ({'; '.join(told)}), and scores of different"
        " ways do not compare: choose one with --images-per-score, --shrinkage or --ridge"
    )
