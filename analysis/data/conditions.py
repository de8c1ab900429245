"""The measurement settings that must be equal for two runs' scores to compare."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

#: Columns of ``runs``: how many images a score is made of, and how its covariances are estimated.
#: The pooling is not among them: it is part of what was measured.
CONDITIONS = ("images_per_score", "shrinkage", "ridge")

#: Values that a description leaves out.
_USUAL = {"shrinkage": "ledoit-wolf", "ridge": "absolute"}


def conditions(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a description of each combination of conditions among runs; one where all compare.

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
    """Return a description of a run's conditions; empty where it never started."""
    known = {name: run[name] for name in CONDITIONS if not pd.isna(run[name])}
    if "images_per_score" not in known:
        return ""
    unusual = [f"{name} {each}" for name, each in known.items() if each != _USUAL.get(name, each)]
    return ", ".join((f"{int(known['images_per_score'])} images a score", *unusual))


def mixed(descriptions: Sequence[str]) -> str | None:
    """Return a warning where runs were measured in several ways; None where they compare.

    Parameters
    ----------
    descriptions : sequence of str
        What ``conditions`` returned.
    """
    if len(descriptions) < 2:
        return None
    return (
        f"these runs were measured in {len(descriptions)} ways ({'; '.join(descriptions)}), and"
        " scores of different ways do not compare: choose one with --images-per-score,"
        " --shrinkage or --ridge"
    )
