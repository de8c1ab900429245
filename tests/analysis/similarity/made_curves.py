"""Signatures as a home would give them, made from lists of affinities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.choices import Normalisation
from analysis.similarity.agreement import agreement
from analysis.similarity.distances import DistanceMatrix, distance_matrix
from analysis.similarity.kmeans import Barycentres

Floats = NDArray[np.float64]


def frame(scores: Mapping[str, Sequence[float] | Floats], **columns: Mapping[str, Any]) -> Any:
    """Return signatures by model; other columns by their name, each by model."""
    rows = [
        {
            "run_id": f"run-{model}",
            "model": model,
            "architecture": model,
            "source": "small",
            "checkpoint": "bundled",
            "dataset": "digits",
            "family": model[0],
            "family_group": None,
            "site": site,
            "relative_depth": site / max(len(values) - 1, 1),
            "affinity": value,
            **{name: given.get(model) for name, given in columns.items()},
        }
        for model, values in scores.items()
        for site, value in enumerate(values)
    ]
    made = pd.DataFrame(rows)
    made.attrs = {"selection": "all models"}
    return made


def random_scores(seed: int, models: int, longest: int = 30) -> dict[str, Floats]:
    """Return curves of unequal lengths, at least one of a single site."""
    rng = np.random.default_rng(seed)
    sizes = [1, *rng.integers(1, longest + 1, models - 1)]
    return {f"m{number}": rng.random(size) for number, size in enumerate(sizes)}


def at_home(home: Path, models: int, seed: int = 0) -> Any:
    """Return random signatures that come from a home."""
    made = frame(random_scores(seed, models))
    made.attrs["home"] = str(home)
    return made


def measure_at_home(home: Path, models: int, seed: int) -> None:
    """Compute the distances of random signatures, in a process of its own."""
    distance_matrix(at_home(home, models, seed))


def placed(places: Mapping[str, float], **columns: Mapping[str, Any]) -> DistanceMatrix:
    """Return a matrix of models on a line: the distance of two is the difference of their places.

    With one site each, the warping distance is just that.
    """
    scores = {model: [place] for model, place in places.items()}
    return distance_matrix(frame(scores, **columns), "raw")


def matrix(seed: int, models: int, normalisation: Normalisation = "raw") -> DistanceMatrix:
    """Return the distances of random curves."""
    return distance_matrix(frame(random_scores(seed, models)), normalisation)


def barycentres(matrix: DistanceMatrix, number: int) -> Barycentres:
    """Return models dealt to clusters in turn, each around the curve of its first member.

    It has the form that k-means gives, without the compiling that it begins with.
    """
    members = np.arange(len(matrix)) % number + 1
    table = matrix.runs.assign(cluster=members, distance=0.0)
    table.attrs = {**matrix.runs.attrs, "cut": f"cut into {number}, as asked", "seed": 0}
    middles = [
        pd.DataFrame(
            {
                "cluster": k,
                "models": int((members == k).sum()),
                "point": np.arange(curve.values.size),
                "relative_depth": np.linspace(0, 1, curve.values.size),
                "affinity": curve.values,
            }
        )
        for k, curve in enumerate(matrix.curves[:number], 1)
    ]
    curves = pd.concat(middles, ignore_index=True)
    return Barycentres(table, curves, 0.0, agreement(table), matrix)
