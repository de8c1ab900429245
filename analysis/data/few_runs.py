"""Frames of one run, or of a few, read from the copy of a home: quick among any number of runs."""

# ruff: noqa: S608 - every name in these statements is declared

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.data.described_frames import describe
from analysis.data.model_names import NAMES, labels, names_of
from analysis.data.random_weights import is_untrained
from analysis.data.selected_runs import frame_of_sites
from catalog.copied_home import copy_of
from catalog.home import Home
from catalog.store.records import details_of
from catalog.store.views import DESCRIBED, scores_that_count
from survey.errors import UnknownName
from survey.text import counted

#: Runs of an architecture that a page lists.
MOST_REPEATS = 100

_LABELLED = "SELECT runs.*, label, tags FROM runs LEFT JOIN run_labels USING (run_id)"

# Rows are sorted later: the sorting of many columns takes DuckDB longer to plan than to do.
_RUNS = f"{_LABELLED} WHERE run_id IN $ids"

# Names tell runs apart from those of the same architecture or label, and datasets from all others.
_KNOWN = """
SELECT names.*, label FROM names LEFT JOIN run_labels USING (run_id)
WHERE architecture IN $names OR label IN $names OR is_first_of_dataset
"""

_REPEATS = """
SELECT each.run_id FROM runs AS each JOIN runs AS this USING (source, architecture)
WHERE this.run_id = $run
ORDER BY each.run_id = $run DESC, each.finished_at DESC NULLS LAST LIMIT $most
"""

_SCORES = f"SELECT {scores_that_count()} FROM signatures WHERE run_id IN $ids"

# The row of the run has the other columns.
_SITES = f"SELECT * EXCLUDE ({', '.join(each.name for each in DESCRIBED)}) FROM ({_SCORES})"

_GAPS = "FROM gaps WHERE run_id IN $ids ORDER BY run_id, site, status"

_MEASURES = "FROM network_scores WHERE run_id IN $ids ORDER BY measure"

# In the order of a selection, which decides between equally near ones.
_CURVES = f"""
SELECT run_id, any_value(checkpoint) AS checkpoint, list(affinity ORDER BY site) AS affinity
FROM (SELECT {scores_that_count()} FROM signatures) JOIN latest USING (run_id)
  JOIN (SELECT run_id, finished_at FROM runs) USING (run_id)
GROUP BY run_id ORDER BY any_value(architecture), any_value(source), any_value(checkpoint),
  any_value(dataset), any_value(pooling), any_value(finished_at), run_id
"""


@dataclass(frozen=True, slots=True)
class RunRows:
    """The rows of some runs; each frame has the columns of ``ReportMaterial``'s."""

    models: pd.DataFrame
    signatures: pd.DataFrame
    gaps: pd.DataFrame
    #: What changes with them.
    version: str


@dataclass(frozen=True, slots=True)
class OneRun:
    """One run, in rows: frames of a single run take longer to make than all else of its page."""

    #: Its row of ``runs``, with ``label``, ``tags`` and ``model``.
    row: dict[str, Any]
    #: Its sites in order, and those without a score with the reasons.
    sites: list[dict[str, Any]]
    gaps: list[dict[str, Any]]
    #: The measures of its whole network.
    measures: list[dict[str, Any]]
    #: What changes with them.
    version: str


def run_named(home: Home, prefix: str) -> str:
    """Return the id of the run whose id begins so.

    Raises
    ------
    UnknownName
        If none or several do.
    """
    sql = "SELECT run_id FROM runs WHERE starts_with(run_id, $start) ORDER BY run_id LIMIT 20"
    copy = copy_of(home)
    ids = copy.query(sql, start=prefix)["run_id"].to_pylist()
    if prefix in ids:
        return prefix
    if len(ids) != 1 or not prefix:
        near = copy.query(sql, start=prefix[:2])
        raise UnknownName("run", prefix, near["run_id"].to_pylist())
    return str(ids[0])


def rows_of(home: Home, ids: Sequence[str]) -> RunRows:
    """Return the rows of some runs, in the order of their ids here."""
    query = copy_of(home).query
    runs = _labelled(home, ids)
    places = {run["run_id"]: place for place, run in enumerate(runs)}
    scores = frame_of_sites(query(_SCORES, ids=list(ids)))
    of_runs = np.array([places[run] for run in scores["run_id"]], np.int64)
    order = np.lexsort((scores["site"].to_numpy(), of_runs))
    scores = scores.iloc[order].reset_index(drop=True)
    models = pd.DataFrame(runs)
    models["label"] = pd.Series([run["label"] for run in runs], dtype="object")
    for column, names in names_of((*_known(home, runs), *runs)).items():
        models[column] = pd.array([names[run] for run in places], dtype="str")
    what = runs[0]["run_id"] if len(runs) == 1 else counted(len(runs), "run")
    describe(models, models, np.arange(len(models)), (), what)
    describe(scores, models, of_runs[order], (*NAMES, "label", "tags"), what)
    gaps = query(_GAPS, ids=list(ids)).to_pandas()
    gaps["model"] = gaps["run_id"].map(models.set_index("run_id")["model"])
    return RunRows(models, scores, gaps, _version(runs, models["model"].tolist()))


def run_of(home: Home, prefix: str) -> OneRun:
    """Return the run whose id begins so.

    Raises
    ------
    UnknownName
        If none or several do.
    """
    (run,) = _labelled(home, [prefix]) or _labelled(home, [run_named(home, prefix)])
    model = labels((*_known(home, [run]), run))[run["run_id"]]
    of_run = {"ids": [run["run_id"]]}
    sites, gaps, measures = (
        copy_of(home).query(sql, **of_run).to_pylist() for sql in (_SITES, _GAPS, _MEASURES)
    )
    sites.sort(key=lambda each: each["site"])
    for measure in measures:
        measure["details"] = details_of(measure["details"])
    version = _version([run, *measures], [model])
    return OneRun({**run, "model": model}, sites, gaps, measures, version)


def _labelled(home: Home, ids: Sequence[str]) -> list[dict[str, Any]]:
    """Return the rows of ``runs`` with labels and tags, in the order of the ids."""
    runs: list[dict[str, Any]] = copy_of(home).query(_RUNS, ids=list(ids)).to_pylist()
    for run in runs:
        run["tags"] = dict(run["tags"] or ())
    return sorted(runs, key=lambda run: ids.index(run["run_id"]))


def _known(home: Home, runs: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the runs that the names of some tell them apart from."""
    names = [run[name] for run in runs for name in ("architecture", "label") if run[name]]
    known: list[dict[str, Any]] = copy_of(home).query(_KNOWN, names=names).to_pylist()
    return known


def _version(runs: Sequence[dict[str, Any]], models: Sequence[str]) -> str:
    return hashlib.sha256(repr((runs, models)).encode()).hexdigest()[:16]


def repeats_of(home: Home, run: str) -> list[str]:
    """Return the ids of a run, which comes first, and of others of its architecture."""
    values = {"run": run, "most": MOST_REPEATS}
    ids: list[str] = copy_of(home).query(_REPEATS, **values)["run_id"].to_pylist()
    return ids


def curves_of(home: Home) -> pa.Table:
    """Return the affinities of each run that questions count, in the order of its sites."""
    runs = copy_of(home).query(_CURVES)
    checkpoints = runs["checkpoint"].combine_chunks().dictionary_encode()
    trained = pa.array(
        [not is_untrained(each) for each in checkpoints.dictionary.to_pylist()], pa.bool_()
    )
    is_trained = trained.take(checkpoints.indices)
    these = runs.filter(is_trained) if pc.any(is_trained).as_py() else runs
    return these.select(["run_id", "affinity"])
