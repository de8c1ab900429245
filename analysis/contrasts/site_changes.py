"""How each site of a run differs from the same site of an earlier one, before any test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from analysis.contrasts.drift_verdicts import OUT
from analysis.contrasts.run_pairs import RunPair
from analysis.data.model_names import Run
from analysis.data.tables import Row
from analysis.statistics.p_values import unpaired_freedom
from catalog.home import Home
from catalog.store.reader import query
from survey.results import FLAGS, LEFT_OUT

_SITES = """
WITH pairs AS (
  SELECT unnest($pairs::BIGINT[]) AS pair, unnest($before::VARCHAR[]) AS before,
    unnest($after::VARCHAR[]) AS after
), x AS (
  SELECT pair, site_name, batch, site, affinity, status, flags
  FROM pairs JOIN layer_scores ON run_id = before
), y AS (
  SELECT pair, site_name, batch, site, affinity, status, flags
  FROM pairs JOIN layer_scores ON run_id = after
)
SELECT pair, site_name, min(x.site) AS site_before, min(y.site) AS site_after,
  count(x.affinity) AS batches_before, avg(x.affinity) AS mean_before,
  var_samp(x.affinity) AS variance_before,
  count(y.affinity) AS batches_after, avg(y.affinity) AS mean_after,
  var_samp(y.affinity) AS variance_after,
  count(y.affinity - x.affinity) AS batches_both, avg(y.affinity - x.affinity) AS mean_both,
  avg(x.affinity) FILTER (y.affinity IS NOT NULL) AS paired_before,
  avg(y.affinity) FILTER (x.affinity IS NOT NULL) AS paired_after,
  var_samp(y.affinity - x.affinity) AS variance_both,
  count(*) FILTER (x.affinity IS DISTINCT FROM y.affinity) AS unequal,
  list_sort(list_distinct(list(x.status))) AS statuses_before,
  list_sort(list_distinct(list(y.status))) AS statuses_after,
  count(*) FILTER (x.status <> y.status) AS other_status,
  flatten(list_value(list_distinct(flatten(list(x.flags))), list_distinct(flatten(list(y.flags)))))
    AS flags
FROM x FULL JOIN y USING (pair, site_name, batch)
GROUP BY pair, site_name ORDER BY pair, coalesce(site_after, site_before), site_name
"""


def site_rows(home: Home, pairs: Sequence[RunPair]) -> list[Row]:
    """Return one row a site of every pair of runs, in the columns of ``drift_verdicts.COLUMNS``.

    A row has a verdict where no test is needed for it, else ``freedom``, the degrees of freedom of
    the test.

    Parameters
    ----------
    home : Home
        The home that holds the runs.
    pairs : sequence of RunPair
        The runs to compare.
    """
    if not pairs:
        return []
    parameters = {
        "pairs": list(range(len(pairs))),
        "before": [pair.before["run_id"] for pair in pairs],
        "after": [pair.after["run_id"] for pair in pairs],
    }
    result = query(home, _SITES, parameters).to_pylist()
    return [_site_row(pairs[site["pair"]], site) for site in result]


def run_row(verdict: str, before: Run | None, after: Run, detail: str) -> Row:
    """Return what a row says of the two runs, with a verdict and why."""
    names = ("architecture", "checkpoint", "dataset")
    return {
        "verdict": verdict,
        **{name: after[name] for name in names},
        "before": before["run_id"] if before else None,
        "after": after["run_id"],
        "flags": (),
        "detail": detail,
    }


def _site_row(pair: RunPair, site: Mapping[str, Any]) -> Row:
    before, after = site["mean_before"], site["mean_after"]
    row = run_row("", pair.before, pair.after, pair.causes)
    row |= {
        "site": site["site_before"] if site["site_after"] is None else site["site_after"],
        "site_name": site["site_name"],
        "affinity_before": before,
        "affinity_after": after,
        "flags": tuple(flag for flag in FLAGS if flag in (site["flags"] or ())),
    }
    if site["site_before"] is None or site["site_after"] is None:
        change = "appeared" if site["site_before"] is None else "vanished"
        return row | {"verdict": f"site {change}"}
    if text := _status_change(pair, site):
        return row | {"verdict": "status changed", "detail": text}
    if LEFT_OUT.intersection(row["flags"]):
        return row | {"verdict": OUT, "affinity_before": None, "affinity_after": None}
    if before is None or after is None:
        # The same status without a score in both runs.
        return row | {"verdict": "unchanged", "detail": f"no score: {site['statuses_after'][0]}"}
    return row | _measured(pair, site)


def _measured(pair: RunPair, site: Mapping[str, Any]) -> Row:
    """Return the difference of a site's means, its standard error and degrees of freedom.

    Where the runs are paired, the means are over the batches that have a score in both, too.
    """
    if pair.paired and site["unequal"] == 0:
        equal = {"difference": 0.0, "standard_error": 0.0, "test": "paired", "freedom": 1.0}
        return {**equal, "verdict": "unchanged"}
    if pair.paired:
        batches, row = site["batches_both"], {"difference": site["mean_both"]}
        row |= {f"affinity_{when}": site[f"paired_{when}"] for when in ("before", "after")}
    else:
        batches = min(site["batches_before"], site["batches_after"])
        row = {"difference": site["mean_after"] - site["mean_before"]}
    if batches < 2:
        return row | {"verdict": "too few batches"}
    if pair.paired:
        error, freedom = (site["variance_both"] / batches) ** 0.5, batches - 1.0
    else:
        names = ("variance_before", "batches_before", "variance_after", "batches_after")
        error, freedom = map(float, unpaired_freedom(*(site[name] for name in names)))
    return row | {
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
