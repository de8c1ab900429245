"""Tidy data frames of what a home holds: one row a model, a site, or a site and batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.choices import Role
from analysis.data.model_names import checkpoint_names, dataset_names, is_untrained, labels
from analysis.data.provenance import COMPARED, CONDITIONS, conditions, mixed_values
from analysis.data.run_tags import with_labels
from analysis.data.selection import Selection
from analysis.data.validation import require_choice
from catalog.open_home import open_home
from catalog.store.latest_runs import MEASURED
from catalog.store.reader import query
from catalog.store.schema import installed_columns, quoted_name
from catalog.store.views import layer_scores, scores_that_count
from survey.errors import UnknownName


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
    require_choice("role", role, Role)
    columns = "signatures.*" if keep_flagged else scores_that_count()
    joined = "signatures JOIN (SELECT run_id, finished_at FROM runs) USING (run_id)"
    frame = _frame(home, selection, columns, joined, f"{_ORDER}, site")
    frame["flags"] = [tuple(each) for each in frame["flags"]]
    if role == "all":
        return frame
    frame.attrs["selection"] += f", {role} sites"
    return frame[frame["role"] == role].reset_index(drop=True)


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
    known = [column.name for column in layer_scores(installed_columns()).columns]
    for name in columns or ():
        if name not in known:
            raise UnknownName("column", name, known)
    keys = ("run_id", "batch", "site")
    names = map(quoted_name, dict.fromkeys((*keys, *(columns or ()))))
    wanted = ["layer_scores.*"] if columns is None else names
    joined = "layer_scores JOIN (SELECT run_id, finished_at FROM runs) USING (run_id)"
    return _frame(home, selection, ", ".join(wanted), joined, f"{_ORDER}, batch, site")


def models(home: str | Path = "survey-home", selection: Selection | None = None) -> pd.DataFrame:
    """Return runs, one row a run; see ``signatures``.

    The columns are those of the table ``runs``, and ``model``, ``checkpoint_name``,
    ``dataset_name``, ``label`` and ``tags``. A run that failed or is under way is included where no
    run that measures the same has finished.
    """
    return _frame(home, selection, "*", "runs")


#: The newest of repeats comes last: ``last_run_each`` keeps that one.
_ORDER = "architecture, source, checkpoint, dataset, pooling, finished_at NULLS FIRST, run_id"

_RUNS = f"""
SELECT run_id, family, family_group, status, finished_at, measuring_version,
  {", ".join((*MEASURED, *CONDITIONS))}
FROM runs ORDER BY {_ORDER}
"""  # noqa: S608 - declared names


def _frame(
    home: str | Path, selection: Selection | None, columns: str, source: str, order: str = _ORDER
) -> pd.DataFrame:
    """Return columns of the selected runs from a table, a view or a join of them."""
    opened, selection = open_home(Path(home), create=False), selection or Selection()
    runs = with_labels(query(opened, _RUNS).to_pylist(), opened)
    chosen = selection.choose(runs)
    sql = f"""
SELECT {columns} FROM {source} JOIN (SELECT unnest($run_ids::VARCHAR[]) AS run_id) USING (run_id)
ORDER BY {order}
"""  # noqa: S608 - declared names
    run_ids = [run["run_id"] for run in chosen]
    frame: pd.DataFrame = query(opened, sql, {"run_ids": run_ids}).to_pandas()
    describe(
        (frame,),
        chosen,
        ", ".join(filter(None, (selection.describe(), selection.passed_over(runs)))),
    )
    frame.attrs["home"] = str(home)
    if left_out := selection.untrained_left_out(selection.fitting(runs)):
        frame.attrs["untrained_left_out"] = left_out
    elif chosen and all(is_untrained(run["checkpoint"]) for run in chosen):
        frame.attrs["untrained_alone"] = True
    return frame


def describe(
    frames: Sequence[pd.DataFrame],
    runs: Sequence[Mapping[str, Any]],
    selection: str,
    known: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Add to rows of some runs the names that people read, and what describes the runs.

    Parameters
    ----------
    frames : sequence of pandas.DataFrame
        Rows with ``run_id``; they are changed.
    runs : sequence of mapping
        The selected runs, rows of ``runs`` with ``label`` and ``tags``.
    selection : str
        Which runs these are, for captions.
    known : sequence of mapping
        Runs that the names tell them apart from too, with what ``labels`` asks for.
    """
    # Names from all selected runs, so that a run has the same ones in all frames.
    apart = {run["run_id"]: run for run in (*known, *runs)}.values()
    names = {"model": labels(apart)}
    files = {"checkpoint_name": checkpoint_names(apart), "dataset_name": dataset_names(apart)}
    for frame in frames:
        of_files = files if {"checkpoint", "dataset"} <= set(frame) else {}
        places, ids = pd.factorize(frame["run_id"])
        for column, each in {**names, **of_files}.items():
            frame[column] = pd.array([each[run] for run in ids], dtype="str").take(places)
        for column in ("label", "tags"):
            given = {run["run_id"]: run[column] for run in runs}
            values = pd.Series([given[run] for run in ids], dtype="object")
            frame[column] = values.take(places).set_axis(frame.index)
        shown = [run for run in runs if run["run_id"] in ids]
        frame.attrs = {
            "selection": selection,
            "measuring_versions": sorted({run["measuring_version"] for run in shown} - {None}),
            "conditions": conditions(shown),
            "mixed": mixed_values({name: {run[name] for run in shown} for name in COMPARED}),
        }
