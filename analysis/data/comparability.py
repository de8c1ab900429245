"""Conditions: the settings of a measurement that its scores depend on.

Owns what must be equal for two runs' scores to compare, and the words for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

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
    return sorted({condition(run) for run in runs} - {""})


def condition(run: Mapping[str, Any]) -> str:
    """Return how a run was measured, in words; nothing of one that was never begun."""
    known = {name: run[name] for name in CONDITIONS if not pd.isna(run[name])}
    if "images_per_score" not in known:
        return ""
    unusual = [f"{name} {each}" for name, each in known.items() if each != _USUAL.get(name, each)]
    return ", ".join((f"{int(known['images_per_score'])} images a score", *unusual))


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
