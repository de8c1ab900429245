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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import t as student

from analysis.choices import DRIFT_LEVEL, DRIFT_TOLERANCE
from analysis.contrasts.run_pairs import (
    Alone,
    Run,
    RunPair,
    ended_runs,
    explicit_pair,
    with_predecessors,
)
from analysis.data.frames import flag_counts
from analysis.data.provenance import conditions, runs_hash
from analysis.data.selection import Selection
from analysis.data.tables import Row
from analysis.statistics.p_values import (
    detectable_difference,
    difference_p,
    false_discovery,
    holm,
    unpaired_freedom,
)
from analysis.statistics.pearson import CONFIDENCE
from analysis.text import listed, number
from catalog.home import Home
from catalog.open_home import open_home
from catalog.store.reader import query
from survey.errors import SettingsError
from survey.text import counted

#: Verdicts on a site that make drift.
MOVES = ("moved", "status changed")

#: Verdicts on what stayed as it was.
QUIET = ("unchanged", "stayed")

#: Columns of the report, one row a site, or a run that has no sites to compare.
COLUMNS = {
    **dict.fromkeys(("verdict", "architecture", "checkpoint", "dataset", "before", "after"), "str"),
    "site": "Int64",
    "site_name": "str",
    **dict.fromkeys(("affinity_before", "affinity_after", "difference"), "float64"),
    **dict.fromkeys(("standard_error", "low", "high", "detectable"), "float64"),
    "test": "str",
    **dict.fromkeys(("p", "p_corrected", "q"), "float64"),
    "detail": "str",
}


@dataclass(frozen=True, slots=True)
class Drift:
    """How signatures differ from those measured before."""

    #: One row a site of every compared pair, and one a run that appeared, vanished or could not
    #: be compared; the columns of ``COLUMNS``.
    rows: pd.DataFrame
    #: How many pairs of runs were compared.
    pairs: int
    #: Smallest difference that matters.
    tolerance: float
    #: Family-wise error level.
    level: float

    @property
    def moved(self) -> bool:
        """Whether anything moved beyond the tolerance."""
        return bool(self.rows["verdict"].isin(MOVES).any())

    @property
    def news(self) -> pd.DataFrame:
        """The rows of what did not stay as it was."""
        return self.rows[~self.rows["verdict"].isin(QUIET)].reset_index(drop=True)

    @property
    def tests(self) -> int:
        """How many tests the family holds."""
        return int(self.rows["p"].notna().sum())

    def finding(self) -> str:
        """Return how many sites moved, and which moved farthest, as a sentence."""
        rows = self.rows[self.rows["difference"].notna()]
        if rows.empty:
            return "No site was measured before"
        moved = rows[rows["verdict"] == "moved"]
        pairs = counted(self.pairs, "pair of runs", "pairs of runs")
        if moved.empty:
            return f"None of {counted(len(rows), 'site')} moved (n = {pairs})"
        largest = moved.iloc[int(moved["difference"].abs().argmax())]
        return (
            f"{len(moved)} of {counted(len(rows), 'site')} moved, in"
            f" {listed(dict.fromkeys(moved['architecture']))}; farthest {largest['site_name']},"
            f" from {number(largest['affinity_before'])} to {number(largest['affinity_after'])}"
            f" (n = {pairs})"
        )

    def sentences(self) -> list[str]:
        """Return what was tested, how large a move had to be, and how often each verdict fell."""
        counts = Counter(self.rows["verdict"])
        order = (*MOVES, *(verdict for verdict in sorted(counts) if verdict not in MOVES))
        verdicts = ", ".join(f"{name}: {counts[name]}" for name in order if name in counts)
        tested = (
            f"pairs of runs compared: {self.pairs}, sites tested: {self.tests}; tolerance"
            f" {self.tolerance:g}, family-wise level {self.level:g} (Holm)"
        )
        return [tested, *self._power(), verdicts or "no finished run has a predecessor"]

    def _power(self) -> list[str]:
        """Return how large a move had to be to be detected."""
        sizes = self.rows.loc[self.rows["standard_error"] > 0, "detectable"].dropna()
        if sizes.empty:
            return []
        middle = "more than 1, so none" if sizes.median() > 1 else f"{sizes.median():.2g}"
        return [f"a move of one site was sure to be shown from {middle} on, in the median site"]


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
        Compare every run that finished since then; by default the newest of each name.
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
        What moved, appeared and vanished.

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
    rows = _judged(_site_rows(opened, pairs), tolerance, level)
    rows += [_run_row(one.verdict, one.before, one.after, one.detail) for one in others]
    frame = _frame(rows)
    ids = {run_id for name in ("before", "after") for run_id in frame[name].dropna()}
    newest = replace(selection or Selection(), newest=True)
    description = "the pair asked for" if pair else newest.describe()
    frame.attrs = {"selection": description, "runs": len(ids), "runs_hash": runs_hash(ids)}
    frame.attrs["conditions"] = conditions(run for one in pairs for run in (one.before, one.after))
    # A move is one whatever decides the score: none is left out.
    frame.attrs["marked"] = flag_counts(opened, [one.after["run_id"] for one in pairs])
    return Drift(frame, len(pairs), tolerance, level)


def _require(holds: bool, name: str, value: float, allowed: str) -> None:
    if not holds:
        raise SettingsError(f"the {name} is {value:g}, must be {allowed}")


_SITES = """
WITH pairs AS (
  SELECT unnest($pairs::BIGINT[]) AS pair, unnest($before::VARCHAR[]) AS before,
    unnest($after::VARCHAR[]) AS after
), x AS (
  SELECT pair, site_name, batch, site, affinity, status
  FROM pairs JOIN batch_scores ON run_id = before
), y AS (
  SELECT pair, site_name, batch, site, affinity, status
  FROM pairs JOIN batch_scores ON run_id = after
)
SELECT pair, site_name, min(x.site) AS site_before, min(y.site) AS site_after,
  count(x.affinity) AS batches_before, avg(x.affinity) AS mean_before,
  var_samp(x.affinity) AS variance_before,
  count(y.affinity) AS batches_after, avg(y.affinity) AS mean_after,
  var_samp(y.affinity) AS variance_after,
  count(y.affinity - x.affinity) AS batches_both, avg(y.affinity - x.affinity) AS mean_both,
  var_samp(y.affinity - x.affinity) AS variance_both,
  count(*) FILTER (x.affinity IS DISTINCT FROM y.affinity) AS unequal,
  list_sort(list_distinct(list(x.status))) AS statuses_before,
  list_sort(list_distinct(list(y.status))) AS statuses_after,
  count(*) FILTER (x.status <> y.status) AS other_status
FROM x FULL JOIN y USING (pair, site_name, batch)
GROUP BY pair, site_name ORDER BY pair, coalesce(site_after, site_before), site_name
"""


def _site_rows(home: Home, pairs: Sequence[RunPair]) -> list[Row]:
    """Return one row a site of every pair, with a verdict where no test is needed for it."""
    if not pairs:
        return []
    parameters = {
        "pairs": list(range(len(pairs))),
        "before": [pair.before["run_id"] for pair in pairs],
        "after": [pair.after["run_id"] for pair in pairs],
    }
    result = query(home, _SITES, parameters).to_pylist()
    return [_site_row(pairs[site["pair"]], site) for site in result]


def _site_row(pair: RunPair, site: Mapping[str, Any]) -> Row:
    before, after = site["mean_before"], site["mean_after"]
    row = _run_row("", pair.before, pair.after, pair.causes)
    row |= {
        "site": site["site_before"] if site["site_after"] is None else site["site_after"],
        "site_name": site["site_name"],
        "affinity_before": before,
        "affinity_after": after,
    }
    if site["site_before"] is None or site["site_after"] is None:
        change = "appeared" if site["site_before"] is None else "vanished"
        return row | {"verdict": f"site {change}"}
    if text := _status_change(pair, site):
        return row | {"verdict": "status changed", "detail": text}
    if before is None or after is None:
        # The same status without a score in both runs.
        return row | {"verdict": "unchanged", "detail": f"no score: {site['statuses_after'][0]}"}
    return row | _measured(pair, site)


def _measured(pair: RunPair, site: Mapping[str, Any]) -> Row:
    """Return the difference of a site's means, its standard error and degrees of freedom."""
    if pair.paired and site["unequal"] == 0:
        equal = {"difference": 0.0, "standard_error": 0.0, "test": "paired", "freedom": 1.0}
        return {**equal, "verdict": "unchanged"}
    if pair.paired:
        batches, difference = site["batches_both"], site["mean_both"]
    else:
        batches = min(site["batches_before"], site["batches_after"])
        difference = site["mean_after"] - site["mean_before"]
    if batches < 2:
        return {"difference": difference, "verdict": "too few batches"}
    if pair.paired:
        error, freedom = (site["variance_both"] / batches) ** 0.5, batches - 1.0
    else:
        names = ("variance_before", "batches_before", "variance_after", "batches_after")
        error, freedom = map(float, unpaired_freedom(*(site[name] for name in names)))
    return {
        "difference": difference,
        "standard_error": error,
        "freedom": freedom,
        "test": "paired" if pair.paired else "unpaired",
    }


def _status_change(pair: RunPair, site: Mapping[str, Any]) -> str:
    """Return how a site's status changed, where that is no accident of which images were seen."""
    before, after = site["statuses_before"], site["statuses_after"]
    changed = site["other_status"] > 0 if pair.paired else not set(before) & set(after)
    if not changed:
        return ""
    batches = f" at {site['other_status']} batches" if pair.paired else ""
    return f"{' and '.join(before)} -> {' and '.join(after)}{batches}"


def _judged(rows: list[Row], tolerance: float, level: float) -> list[Row]:
    """Test every site that has a difference and an error, all in one family."""
    tested = [row for row in rows if "freedom" in row]
    difference, error, freedom = (
        np.array([row[name] for row in tested], dtype=float)
        for name in ("difference", "standard_error", "freedom")
    )
    p = difference_p(difference, error, freedom, tolerance)
    half = error * student.ppf((1 + CONFIDENCE) / 2, freedom)
    # Of the strictest of Holm's steps, which a single move has to take.
    enough = detectable_difference(error, freedom, tolerance, level / max(len(tested), 1))
    many = zip(tested, p, holm(p), false_discovery(p), enough, half, strict=True)
    for row, single, corrected, rate, size, reach in many:
        row |= {"p": float(single), "p_corrected": float(corrected), "q": float(rate)}
        row |= {"low": row["difference"] - float(reach), "high": row["difference"] + float(reach)}
        row["detectable"] = float(size)
        row["verdict"] = row["verdict"] or ("moved" if corrected <= level else "stayed")
    return rows


def _run_row(verdict: str, before: Run | None, after: Run, detail: str) -> Row:
    names = ("architecture", "checkpoint", "dataset")
    return {
        "verdict": verdict,
        **{name: after[name] for name in names},
        "before": before["run_id"] if before else None,
        "after": after["run_id"],
        "detail": detail,
    }


def _frame(rows: list[Row]) -> pd.DataFrame:
    """Return the rows as a frame, moves first."""
    places = {verdict: place for place, verdict in enumerate(MOVES)}
    rows = sorted(rows, key=lambda row: places.get(row["verdict"], len(places)))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
