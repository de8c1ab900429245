"""Regressions of accuracy on one predictor at a time, within a group of families (Fig. 4).

Owns the fit of each predictor alone, and the p-value of the best, which accounts for picking it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pandas as pd

from analysis.array_types import Floats
from analysis.choices import Accuracy
from analysis.data.tables import Row, result_table
from analysis.relations.accuracy_predictors import GIVEN, GROUP, KINDS, predictors
from analysis.statistics.clustered_permutations import Permuted, permuted_by_group
from analysis.statistics.fitted_line import fitted_line
from analysis.statistics.p_values import SIGNIFICANT, corrected
from analysis.statistics.pearson import ROUNDING, constant
from analysis.statistics.permutations import require_permutations
from analysis.text import chance, number
from survey.text import counted

#: Fewer architectures than this are not fitted: with three, R2 is large whatever they are.
LEAST_ARCHITECTURES = 4

COLUMNS = {
    **dict.fromkeys(("group", "dataset", "accuracy", "kind", "predictor"), "str"),
    **dict.fromkeys(("n", "families", "checkpoints"), "int64"),
    **dict.fromkeys(("r2", "slope", "intercept", "r2_left_out", "p"), "float64"),
    "picked": "bool",
    **dict.fromkeys(("p_picked", "p_corrected", "q"), "float64"),
    "reason": "str",
}


def regressions(
    signatures: pd.DataFrame,
    models: pd.DataFrame,
    permutations: int = 9999,
    seed: int = 0,
    accuracy: Accuracy = "measured",
    given: Sequence[str] = (),
) -> pd.DataFrame:
    """Regress top-1 accuracy on one predictor at a time, per group of families and dataset.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``role`` and ``affinity``.
    models : pandas.DataFrame
        Rows of ``analysis.models``: ``run_id``, ``model``, ``source``, ``architecture``,
        ``family``, ``family_group``, ``checkpoint``, ``dataset``, ``pooling``, ``measured_top1``,
        ``reported_top1``, ``depth``, ``parameters`` and ``gflops``. Runs without a group, without a
        signature, or of random weights (``init:...``) have no part in this.
    permutations : int
        How many permutations of the accuracies to draw where not all are tried.
    seed : int
        Seed of the drawing.
    accuracy : {"measured", "reported"}
        Which top-1 is taken where a model has both; where it lacks that, the other is.
    given : sequence of str
        Further predictors: tags, such as ``tags.lr``, or columns of ``models`` that hold numbers.

    Returns
    -------
    pandas.DataFrame
        One row a predictor: ``group`` (of families), ``dataset`` (that the models were measured on,
        with the pooling unless that is mean), ``accuracy`` (of how many checkpoints it is measured
        and reported), ``kind`` (signature: statistics of all sites; gates, main: of those sites
        alone, main only where these are not all sites; characteristic: not from the signature;
        given: named by the caller), ``predictor``, ``n`` (points: architectures with accuracy and
        predictor, each the mean over its checkpoints), ``families`` (of the points),
        ``checkpoints`` (of the group, with an accuracy), ``r2``, ``slope`` and ``intercept`` (of
        top-1, a fraction, on the predictor), ``r2_left_out`` (leave-one-out: 1 - PRESS / sum (y -
        mean y)^2 with the mean over all points [1]_, so that it is below 0 where the line predicts
        worse than that mean), ``p`` (chance of so large an R2 for this predictor if accuracies
        changed places among families and among the architectures of each [2]_; see
        ``analysis.statistics.clustered_permutations``), ``picked`` (whether its R2 is the largest
        of its kind in the group), and on picked rows ``p_picked`` (chance that the largest R2 over
        all predictors of the kind is so large [3]_; this accounts for the picking), ``p_corrected``
        and ``q`` (of ``p_picked`` over all picks of the table; see
        ``analysis.statistics.p_values.corrected``); ``reason`` (why something is blank; empty if
        nothing is).

    Raises
    ------
    SettingsError
        If ``permutations`` is below 1, ``accuracy`` is neither, a column is missing, or a given
        predictor has no number.
    UnknownName
        If there is no such given predictor.

    Notes
    -----
    ``p_picked`` accounts for the choice among the predictors of one kind in one group,
    ``p_corrected`` and ``q`` for that among kinds, groups and datasets too. Architectures of one
    family are alike: where each family has one predictor and one accuracy, its number of families
    decides how small a p can be.

    References
    ----------
    .. [1] D. M. Allen, "The Relationship between Variable Selection and Data Augmentation and a
       Method for Prediction", Technometrics 16 (1974), doi:10.1080/00401706.1974.10489157.
    .. [2] A. M. Winkler et al. (2015), doi:10.1016/j.neuroimage.2015.05.092.
    .. [3] P. H. Westfall and S. S. Young, "Resampling-Based Multiple Testing" (Wiley, 1993): the
       single-step maximum.
    """
    require_permutations(permutations)
    table = predictors(signatures, models, accuracy, given)
    rows: list[Row] = []
    for (group, dataset), members in table.groupby(list(GROUP), sort=True):
        basics = {"group": group, "dataset": dataset}
        rows += [basics | row for row in _group_rows(members, permutations, seed)]
    result = result_table(rows, COLUMNS, signatures, models)
    result[["p_corrected", "q"]] = np.transpose(corrected(result["p_picked"]))
    return result


def regressions_finding(
    regressions: pd.DataFrame, kinds: Sequence[str] = ("signature", "characteristic")
) -> str:
    """Return in how many groups the best statistic of signatures explains accuracy, as a sentence.

    Parameters
    ----------
    regressions : pandas.DataFrame
        From ``regressions``.
    kinds : sequence of str
        The kinds of predictor that count; those that are not of the signature never do.
    """
    counts = regressions["kind"].isin(set(kinds) - {"characteristic", GIVEN})
    ours = regressions[regressions["picked"] & counts]
    if ours.empty:
        return "No group of families has enough architectures with an accuracy for a regression"
    significant = int((ours["p_corrected"] <= SIGNIFICANT).sum())
    left_out = int((ours["r2_left_out"] > 0).sum())
    top = ours.iloc[int(np.argmax(ours["r2"]))]
    groups, datasets = (ours[name].nunique() for name in ("group", "dataset"))
    of = f"comparisons, of {counted(groups, 'group')} on {datasets} datasets"
    many = (of,) if datasets > 1 else ()
    return (
        "The best statistic of signatures passes a test that accounts for every pick in"
        f" {significant} of {counted(len(ours), 'group', *many)}, and predicts architectures left"
        f" out better than their mean in {left_out}; the highest R2 is {number(top['r2'])}"
        f" ({top['predictor']}, {top['group']}, n = {top['n']})"
    )


def given_sentences(regressions: pd.DataFrame) -> list[str]:
    """Return how well the best given predictor explains accuracy, a sentence a group."""
    picked = regressions[regressions["picked"] & (regressions["kind"] == GIVEN)]
    return [
        f"{row['predictor']} and top-1 of {row['group']} on {row['dataset']}: R2"
        f" {number(row['r2'])}, {chance(row['p_picked'])}, n = {row['n']}"
        for row in picked.to_dict("records")
    ]


def _group_rows(members: pd.DataFrame, permutations: int, seed: int) -> Iterator[Row]:
    members = members[members["top1"].notna()]
    counts = {name: int(members[name].sum()) for name in ("measured", "reported")}
    accuracy = ", ".join(f"{n} {name}" for name, n in counts.items() if n)
    basics = {"accuracy": accuracy or "none", "checkpoints": sum(counts.values())}
    top1 = members["top1"].to_numpy(float)
    reason = _unusable(top1, "top-1", "accuracy")
    families = members["family"].to_numpy()
    permuted = None if reason else permuted_by_group(top1, families, permutations, seed)
    for kind in (*KINDS, GIVEN):
        values = _of_kind(members, kind)
        # Without gates the main sites are all sites: one test is not to count twice.
        if kind == "main" and values.equals(_of_kind(members, "signature")):
            continue
        for row in _kind_rows(kind, values, members, permuted):
            yield {**basics, "kind": kind, **row} | ({"reason": reason} if reason else {})


def _of_kind(members: pd.DataFrame, kind: str) -> pd.DataFrame:
    """Return the predictors of one kind."""
    prefix = f"{kind}:"
    return members.filter(regex=f"^{prefix}").rename(columns=lambda name: name.removeprefix(prefix))


def _kind_rows(
    kind: str, values: pd.DataFrame, members: pd.DataFrame, permuted: Permuted | None
) -> list[Row]:
    """Fit every predictor of one kind; the best has a p-value that accounts for picking it."""
    top1 = members["top1"].to_numpy(float)
    rows: list[Row] = []
    best, largest = None, None
    for name in map(str, values):
        x = values[name].to_numpy(float)
        known = np.isfinite(x)
        row: Row = {"predictor": name, "n": int(known.sum()), "picked": False}
        row["families"] = members["family"][known].nunique()
        row["reason"] = "" if permuted is None else _unusable(x[known], name, kind, top1[known])
        rows.append(row)
        if permuted is None or row["reason"]:
            continue
        fit = fitted_line(x[known], top1[known])
        drawn = _permuted_r2(x, top1, permuted.values)
        alone = np.isnan(fit.r2_left_out)
        row |= {"r2": fit.r2, "slope": fit.slope, "intercept": fit.intercept}
        row |= {"r2_left_out": fit.r2_left_out, "p": permuted.p(fit.r2, drawn)}
        row["reason"] = "without one of the architectures it does not vary" if alone else ""
        largest = drawn if largest is None else np.maximum(largest, drawn)
        best = row if best is None or fit.r2 > best["r2"] else best
    if best is not None and largest is not None and permuted is not None:
        best |= {"picked": True, "p_picked": permuted.p(best["r2"], largest)}
    return rows


def _permuted_r2(x: Floats, y: Floats, permuted: Floats) -> Floats:
    """Return R2 of the fit for each permutation of y, over the points where x is known."""
    known = np.isfinite(x)
    moved = permuted[:, known]
    moved -= moved.mean(axis=1, keepdims=True)
    from_mean = x[known] - x[known].mean()
    total = (moved**2).sum(axis=1)
    # Where those with a predictor happen to have one accuracy, nothing is explained.
    total[total <= len(from_mean) * (ROUNDING * np.abs(y).max()) ** 2] = np.inf
    squared: Floats = (moved @ from_mean) ** 2 / (from_mean @ from_mean) / total
    return squared


def _unusable(values: Floats, name: str, kind: str, top1: Floats | None = None) -> str:
    """Return why no line can be fitted; empty where one can."""
    n = len(values)
    if n == 0:
        lacking = {"gates": "gate with a score", "main": "main site with a score"}
        return f"no architecture has a {lacking.get(kind, f'known {name}')}"
    if n < LEAST_ARCHITECTURES:
        return f"{counted(n, 'architecture')}, at least {LEAST_ARCHITECTURES} are needed"
    if constant(values):
        return f"{name} does not vary over the architectures"
    if top1 is not None and constant(top1):
        return "top-1 does not vary over the architectures that have it"
    return ""
