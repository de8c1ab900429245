"""Tidy data frames of what a home holds: one row a model, a site, or a site and batch."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from catalog.home import Home
from catalog.store import query


def signatures(home: str | Path = "survey-home") -> pd.DataFrame:
    """Return every signature, one row a run and site.

    Parameters
    ----------
    home : str or pathlib.Path
        The home that holds them.

    Returns
    -------
    pandas.DataFrame
        The columns of the view ``signatures``: what was measured (``run_id``, ``architecture``,
        ``source``, ``family``, ``checkpoint``, ``dataset``, ``pooling``), the site (``site``,
        ``site_name``, ``activation``, ``graph_depth``, ``role``, ``repeat``, ``layout``,
        ``spatial``, ``channels``), ``affinity`` in [0, 1] with ``affinity_std``, ``affinity_se``
        and ``batches``, and the mean over batches of every other metric (``affinity_plain``,
        ``cka``, ``norm``, ``sparsity_change``, ``entropy_change``, ``r2``, ...). NaN where a site
        has no value.

    Raises
    ------
    SettingsError
        If there is no home.
    """
    return _frame(home, "SELECT * FROM signatures ORDER BY architecture, run_id, site")


def layers(home: str | Path = "survey-home") -> pd.DataFrame:
    """Return every row that was measured, one a run, batch and site; see ``signatures``.

    The columns are those of the view ``layer_scores``: the site's and every metric of the batch,
    with ``status``, ``reason``, ``flags`` and ``notes``, which say why a value is missing.
    """
    return _frame(home, "SELECT * FROM layer_scores ORDER BY architecture, run_id, batch, site")


def models(home: str | Path = "survey-home") -> pd.DataFrame:
    """Return every run with all that is known of it, one row a run; see ``signatures``."""
    return _frame(home, "SELECT * FROM runs ORDER BY architecture, run_id")


def _frame(home: str | Path, sql: str) -> pd.DataFrame:
    frame: pd.DataFrame = query(Home.open(Path(home), create=False), sql).to_pandas()
    return frame
