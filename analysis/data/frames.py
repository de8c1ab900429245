"""Tidy data frames of what a home holds: one row a model, a site, or a site and batch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.choices import Role
from analysis.data.selected_runs import SelectedRuns
from analysis.data.selection import Selection


def signatures(
    home: str | Path = "survey-home",
    selection: Selection | None = None,
    *,
    role: Role = "all",
    keep_flagged: bool = False,
) -> pd.DataFrame:
    """Return signatures, one row a finished run and site.

    Parameters
    ----------
    home : str or pathlib.Path
        The home that holds them.
    selection : Selection, optional
        Which runs; by default the newest of each model, checkpoint, dataset and pooling.
    role : {"all", "main", "gate"}
        Which sites.
    keep_flagged : bool
        Keep scores that a question leaves out: with a flag of ``survey.results.LEFT_OUT``, which is
        ``ridge``, the affinity and ``affinity_plain`` are else NaN.

    Returns
    -------
    pandas.DataFrame
        The columns of the view ``signatures``: what was measured (``run_id``, ``architecture``,
        ``source``, ``family``, ``checkpoint``, ``dataset``, ``pooling``), the site (``site``,
        ``site_name``, ``activation``, ``graph_depth``, ``role``, ``repeat``, ``layout``,
        ``spatial``, ``channels``), ``affinity`` in [0, 1] with ``affinity_std``, ``affinity_se``
        and ``batches``, and the mean over batches of every other metric (``affinity_plain``,
        ``cka``, ``norm``, ``sparsity_change``, ``entropy_change``, ``r2``, ...), NaN where a site
        has no value; ``family_group`` and ``year``; what scores depend on (``images_per_score``,
        ``shrinkage``, ``ridge``); ``flags``, those of any of its batches; ``relative_depth`` in
        [0, 1], the site over the last site of its run, 0 for the only one. By default the rows are
        those of the view ``latest_signatures``, but for random weights. Beside them ``model``, the
        shortest label that tells the selected runs apart, ``checkpoint_name`` and ``dataset_name``,
        which are no paths; ``label``, the user's, or None; ``tags``, a dict of the user's by name.
        ``attrs`` hold a description of the selection, the home and the versions of the measuring.

    Raises
    ------
    SettingsError
        If there is no home, a glob of the selection fits nothing, or there is no such role.
    """
    return SelectedRuns(home, selection).signatures(role, keep_flagged=keep_flagged)


def layers(
    home: str | Path = "survey-home",
    selection: Selection | None = None,
    *,
    columns: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the scores of each batch, one row a run, batch and site.

    Parameters
    ----------
    home, selection
        See ``signatures``.
    columns : sequence of str, optional
        Which columns to read beside ``run_id``, ``batch``, ``site``, ``model``, ``label`` and
        ``tags``: of thousands of runs all of them take gigabytes.

    Returns
    -------
    pandas.DataFrame
        The columns of the view ``layer_scores``: the site's and every metric of the batch, with
        ``status``, ``reason``, ``flags`` and ``notes``, which say why a value is missing; and
        ``model``.

    Raises
    ------
    UnknownName
        If the view has no such column.
    """
    return SelectedRuns(home, selection).layers(columns)


def models(home: str | Path = "survey-home", selection: Selection | None = None) -> pd.DataFrame:
    """Return runs, one row a run; see ``signatures``.

    The columns are those of the table ``runs``, and ``model``, ``checkpoint_name``,
    ``dataset_name``, ``label`` and ``tags``. A run that failed or is under way is included where no
    run that measures the same has finished.
    """
    return SelectedRuns(home, selection).models()
