"""Drift: which signatures moved since they were measured before, by more than chance explains.

A run is compared with its predecessor (``analysis.contrasts.run_pairs``) site by site. The batch
scores of the two runs at a site are samples of what the network scores there; each site is tested
against its own batch-to-batch error, and the tests of all sites of all compared pairs are one
family, whose error level is held by Holm's correction. Reads the signature store; measures and
writes nothing.

Notes
-----
*The hypothesis* is that a site's mean affinity differs by no more than the tolerance t (a
minimum-effect test; Murphy and Myors 1999, doi:10.1037/0021-9010.84.2.234), so that rounding and
differences too small to matter never count, however sharp the test. With the difference d of the
means and its standard error s,

    p = P(T > (|d| - t) / s) + P(T > (|d| + t) / s),

T of Student's distribution; with t = 0 that is the two-sided test.

*Paired*: where both runs saw the same images in the same batches (equal dataset fingerprints, which
hold the order, equal images a score, equally many images skipped), batch k is compared with batch
k: s is that of the differences, with one degree of freedom less than there are of them.

*Unpaired*: Welch's test (1947, doi:10.1093/biomet/34.1-2.28) with its degrees of freedom where both
runs have equally many batches. Where they have not, its tail is too light by far when batches are
few (``bench/drift.py``), and one less than the smaller number of batches is taken, which bounds the
error from above (Mickey and Brown 1966, doi:10.1214/aoms/1177699517).

Batches of one run hold different images, drawn without replacement, which makes means vary less
than the tests assume: they err on the side of no drift. Holm's correction (1979, *Scandinavian
Journal of Statistics* 6, 65-70) holds however sites depend on each other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.special import stdtrit

from analysis.choices import DRIFT_LEVEL, DRIFT_TOLERANCE
from analysis.contrasts.drift_verdicts import COLUMNS, MOVES, OUT, Drift
from analysis.contrasts.run_pairs import Alone, ended_runs, explicit_pair, with_predecessors
from analysis.contrasts.site_changes import run_row, site_rows
from analysis.data.counts import runs_hash
from analysis.data.provenance import conditions
from analysis.data.selection import Selection
from analysis.data.tables import Row
from analysis.statistics.p_values import corrected, detectable_difference, difference_p
from analysis.statistics.pearson import CONFIDENCE
from catalog.open_home import open_home
from survey.errors import SettingsError
from survey.results import left_out_for


def drift(
    home: str | Path = "survey-home",
    *,
    since: datetime | None = None,
    selection: Selection | None = None,
    pair: tuple[str, str] | None = None,
    any_order: bool = False,
    tolerance: float = DRIFT_TOLERANCE,
    level: float = DRIFT_LEVEL,
) -> Drift:
    """Compare signatures with their predecessors.

    A run's predecessor is the newest finished run before it of the same source, architecture,
    checkpoint name and dataset name whose ``COMPARABLE`` settings are the same.

    Parameters
    ----------
    home : str or pathlib.Path
        The home that holds them.
    since : datetime, optional
        Compare every run that finished since then; by default the newest of each name and settings.
    selection : Selection, optional
        Which of them; repeats are compared whatever its ``newest`` is.
    pair : (str, str), optional
        Compare these two runs alone, the earlier one first, whatever their names.
    any_order : bool
        Whether a run on another order of the same dataset may be a predecessor.
    tolerance : float
        Smallest difference of a mean affinity that matters, at least 0.
    level : float
        Family-wise error level, in (0, 1).

    Returns
    -------
    Drift
        What moved, appeared and vanished. A site that bears a flag of ``survey.results.LEFT_OUT``
        in either run is not tested.

    Raises
    ------
    SettingsError
        If there is no home, a number is out of range, nothing is selected, or an explicit pair
        cannot be compared.
    UnknownName
        If a run of the pair is not known.
    """
    _require(0.0 <= tolerance < 1.0, "tolerance", tolerance, "at least 0 and below 1")
    _require(0.0 < level < 1.0, "level", level, "between 0 and 1, neither included")
    opened = open_home(Path(home), create=False)
    if pair is None:
        runs = ended_runs(opened, selection or Selection())
        pairs, others = with_predecessors(runs, since, any_order=any_order)
    else:
        pairs, others = [explicit_pair(opened, pair)], list[Alone]()
    rows = _judged(site_rows(opened, pairs), tolerance, level)
    rows += [run_row(one.verdict, one.before, one.after, one.detail) for one in others]
    frame = _frame(rows)
    ids = {run_id for name in ("before", "after") for run_id in frame[name].dropna()}
    newest = replace(selection or Selection(), newest=True)
    description = "the pair asked for" if pair else newest.describe()
    frame.attrs = {"selection": description, "runs": len(ids), "runs_hash": runs_hash(ids)}
    frame.attrs["conditions"] = conditions(run for one in pairs for run in (one.before, one.after))
    out = frame["verdict"] == OUT
    frame.attrs |= {
        "left_out": _counts(map(left_out_for, frame["flags"][out])),
        "marked": _counts(frame["flags"][~out]),
    }
    return Drift(frame, len(pairs), tolerance, level)


def _counts(flags: Iterable[tuple[str, ...]]) -> dict[str, int]:
    """Return how many sites bear each flag."""
    return dict(Counter(flag for each in flags for flag in each))


def _require(holds: bool, name: str, value: float, allowed: str) -> None:
    if not holds:
        raise SettingsError(f"the {name} is {value:g}, must be {allowed}")


def _judged(rows: list[Row], tolerance: float, level: float) -> list[Row]:
    """Test every site that has a difference and an error, all in one family."""
    tested = [row for row in rows if "freedom" in row]
    difference, error, freedom = (
        np.array([row[name] for row in tested], dtype=float)
        for name in ("difference", "standard_error", "freedom")
    )
    p = difference_p(difference, error, freedom, tolerance)
    half = error * stdtrit(freedom, (1 + CONFIDENCE) / 2)
    # Of the strictest of Holm's steps, which a single move has to take.
    enough = detectable_difference(error, freedom, tolerance, level / max(len(tested), 1))
    many = zip(tested, p, *corrected(p), enough, half, strict=True)
    for row, single, holm, rate, size, reach in many:
        row |= {"p": float(single), "p_corrected": float(holm), "q": float(rate)}
        row |= {"low": row["difference"] - float(reach), "high": row["difference"] + float(reach)}
        row["detectable"] = float(size)
        row["verdict"] = row["verdict"] or ("moved" if holm <= level else "stayed")
    return rows


def _frame(rows: list[Row]) -> pd.DataFrame:
    """Return the rows as a frame, moves first."""
    places = {verdict: place for place, verdict in enumerate(MOVES)}
    rows = sorted(rows, key=lambda row: places.get(row["verdict"], len(places)))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
