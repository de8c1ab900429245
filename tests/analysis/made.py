"""Frames as ``analysis.signatures`` and ``analysis.models`` return them, made up in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd
from numpy.typing import ArrayLike

from catalog.store.schema import METRIC_COLUMNS

#: A run's values by default.
RUN = {
    "source": "small",
    "family": "F",
    "family_group": "residual",
    "year": 2015,
    "checkpoint": "bundled",
    "dataset": "digits",
    "pooling": "mean",
}

#: A site's values by default.
SITE = {"site_name": "s", "activation": "relu", "graph_depth": 1, "role": "main", "repeat": 1}


def signature(run_id: str, affinity: ArrayLike, **values: Any) -> pd.DataFrame:
    """Return the rows of one run; keyword arguments are columns, a value or one value a site."""
    frame = pd.DataFrame({"affinity": pd.Series(affinity, dtype="float64")})
    frame["site"] = range(len(frame))
    named = {"run_id": run_id, "model": run_id, "architecture": run_id}
    metrics = dict.fromkeys((column.name for column in METRIC_COLUMNS), 0.5)
    for name, value in {**named, **RUN, **SITE, **metrics, **values}.items():
        frame[name] = value
    return frame


def signatures(*runs: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of several runs, with a selection in ``attrs``."""
    frame = pd.concat(runs, ignore_index=True)
    frame.attrs["selection"] = "made up"
    return frame


def models(run_ids: Sequence[str], **values: Any) -> pd.DataFrame:
    """Return one row a run; keyword arguments are columns, a value or one value a run."""
    frame = pd.DataFrame({name: list(run_ids) for name in ("run_id", "model", "architecture")})
    known = {"measured_top1": 0.5, "reported_top1": None, "depth": 20, "parameters": 10**6}
    for name, value in {**RUN, **known, "gflops": 1.0, **values}.items():
        frame[name] = value
    return frame
