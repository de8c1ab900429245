"""Frames of the measures of whole networks: a row a run and measure, or a row a run."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.data.selected_runs import SelectedRuns
from analysis.data.selection import Selection
from survey.network_measures import NETWORK_QUANTITIES
from survey.network_measures.base import conventions


def measure_scores(
    home: str | Path = "survey-home", selection: Selection | None = None
) -> pd.DataFrame:
    """Return the measures of whole networks, one row a run and measure, those without a value too.

    Parameters
    ----------
    home, selection
        See ``analysis.signatures``.

    Returns
    -------
    pandas.DataFrame
        The columns of the table ``network_scores`` (``run_id``, ``measure``, ``value``, NaN where
        there is none, ``status``, ``reason``, ``standard_error``, ``samples``, ``details``, a dict,
        and ``version``), what was measured (``architecture``, ``source``, ``family``,
        ``checkpoint``, ``dataset``, ``pooling``), and ``model``, ``label`` and ``tags`` as in
        ``analysis.signatures``.
    """
    return SelectedRuns(home, selection).measures()


def network_measures(
    home: str | Path = "survey-home", selection: Selection | None = None
) -> pd.DataFrame:
    """Return the measures of whole networks, one row a run that has any.

    Parameters
    ----------
    home, selection
        See ``analysis.signatures``.

    Returns
    -------
    pandas.DataFrame
        ``run_id``, what was measured, ``model``, ``label`` and ``tags``; a column for each measure
        that a run has, under its name in ``network_scores``, NaN where there is no value, with its
        standard error under the name and ``_error`` where any is known; and ``conventions``, a
        sentence each on what the values rest on.
    """
    return by_run(measure_scores(home, selection))


def by_run(scores: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``measure_scores`` as ``network_measures`` has them."""
    runs = scores.drop_duplicates("run_id").set_index("run_id")
    runs = runs.drop(columns=list(_OF_A_MEASURE.intersection(runs)))
    values, errors = (
        scores.pivot(index="run_id", columns="measure", values=name).astype("float64")
        for name in ("value", "standard_error")
    )
    values = values[in_declared_order(map(str, values))]
    errors = errors.dropna(axis="columns", how="all").add_suffix("_error")
    texts = scores["details"].map(conventions).groupby(scores["run_id"]).agg(_united)
    frame = runs.join([values, errors, texts.rename("conventions")]).reset_index()
    frame.attrs = dict(scores.attrs)
    return frame


def in_declared_order(measures: Iterable[str]) -> list[str]:
    """Return measures in the order of their declarations, those of other programs last."""
    names = set(measures)
    declared = [each.name for each in NETWORK_QUANTITIES if each.name in names]
    return [*declared, *sorted(names.difference(declared))]


_OF_A_MEASURE = {
    *("measure", "value", "status", "reason", "standard_error", "samples", "details", "version")
}


def _united(texts: pd.Series[Any]) -> str:
    return "; ".join(dict.fromkeys(text for each in texts for text in each))
