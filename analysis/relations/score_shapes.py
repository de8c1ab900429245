"""Shapes: how a model's affinity scores are distributed, and whether they are bimodal (Fig. 5C).

Owns one row a model; the dip itself is in ``analysis.statistics.dip``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from analysis.array_types import Floats
from analysis.data.paired_sites import execution_order
from analysis.data.tables import Row, result_table
from analysis.data.validation import require_columns
from analysis.statistics.dip import dip, dip_p
from analysis.statistics.effective_size import effective_size
from analysis.statistics.p_values import SIGNIFICANT, corrected
from analysis.statistics.pearson import constant
from analysis.text import span
from survey.text import counted

#: Sites below which neither measure is informative: the coefficient divides by n - 3, and the dip
#: of three numbers is always the same.
LEAST_SITES = 4

#: Independent sites below which the dip test hardly shows two heaps, however far apart: of four,
#: heaps 0.2 apart with deviations of 0.01 have p = 0.06.
FEW = 5

#: The least and the most bandwidth of a density, in units of affinity: equal scores have no spread,
#: and that of two distant modes would merge them into one.
BANDWIDTHS = (0.005, 0.03)

#: The bimodality coefficient of a uniform distribution; above it, two modes are suspected.
UNIFORM = 5 / 9

COLUMNS = {
    **dict.fromkeys(("model", "family"), "str"),
    "sites": "int64",
    **dict.fromkeys(("mean", "std", "bimodality_coefficient", "dip", "n_effective"), "float64"),
    **dict.fromkeys(("dip_p", "p_corrected", "q"), "float64"),
    "reason": "str",
}

_NEEDED = ("run_id", "model", "family", "affinity")


def shapes(signatures: pd.DataFrame, draws: int = 1999, seed: int = 0) -> pd.DataFrame:
    """Describe the distribution of each model's affinity scores.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``model``, ``family`` and ``affinity``. Where
        there is a column ``site``, it is the order of a run.
    draws : int
        Uniform samples the p-value of the dip is simulated with, at least 1.
    seed : int
        Seed of the simulation.

    Returns
    -------
    pandas.DataFrame
        One row a model: ``model``, ``family``, ``sites`` (that have an affinity), ``mean``, ``std``
        (sample deviation), ``bimodality_coefficient`` (Sarle's; see there), ``dip`` (Hartigan's;
        see ``analysis.statistics.dip``), ``n_effective`` (how many independent sites those of the
        model are worth; see ``analysis.statistics.effective_size``), ``dip_p`` (chance of so large
        a dip of as many uniform numbers), ``p_corrected`` and ``q`` (Holm's correction of it and
        the false discovery rate, over the models), ``reason`` (why something is blank; empty if
        nothing is).

    Raises
    ------
    SettingsError
        If ``draws`` is below 1, or a column is missing.

    Notes
    -----
    The unit of replication is the effective site, as the sites of one network depend on each other.
    The two measures differ: the coefficient rises with skewness too, the dip does not.
    """
    require_columns(signatures, _NEEDED)
    # A part of the columns is sorted in a fraction of the time.
    sites = signatures[list(_NEEDED)].iloc[execution_order(signatures)]
    runs = sites.groupby("run_id", sort=False)
    scores = {run: each.dropna().to_numpy(float) for run, each in runs["affinity"]}
    # What depends on the number of sites alone is computed once where models of as many follow.
    by_size = sorted(scores, key=lambda run: len(scores[run]))
    numbers = {run: _numbers(scores[run], draws, seed) for run in by_size}
    named = runs[["model", "family"]].first()
    rows = ({**named.loc[run], **numbers[run]} for run in scores)
    result = result_table(rows, COLUMNS, signatures)
    result["p_corrected"], result["q"] = corrected(result["dip_p"])
    return result


def bimodality_coefficient(values: ArrayLike) -> float:
    """Return Sarle's coefficient (g^2 + 1) / (k + 3 (n - 1)^2 / ((n - 2) (n - 3))).

    g is the sample skewness and k the sample excess kurtosis, both corrected for bias, as SAS has
    them. It is 5/9 for a uniform distribution, 1/3 for a normal one, 1 at most.

    Parameters
    ----------
    values : array of float, shape (n,)
        At least four, and not all the same.

    References
    ----------
    .. [1] R. Pfister et al., "Good Things Peak in Pairs: A Note on the Bimodality Coefficient",
       Frontiers in Psychology 4 (2013), doi:10.3389/fpsyg.2013.00700.
    """
    x: Floats = np.asarray(values, float)
    n = len(x)
    second, third, fourth = (float(((x - x.mean()) ** power).mean()) for power in (2, 3, 4))
    skewness = third / second**1.5 * (n * (n - 1)) ** 0.5 / (n - 2)
    excess = fourth / second**2 - 3
    kurtosis = ((n + 1) * excess + 6) * (n - 1) / ((n - 2) * (n - 3))
    return float(skewness**2 + 1) / (kurtosis + 3 * (n - 1) ** 2 / ((n - 2) * (n - 3)))


def density(values: ArrayLike, places: ArrayLike) -> Floats:
    """Return the density of scores in [0, 1], a Gaussian kernel reflected at both ends.

    The bandwidth is Silverman's, 0.9 min(std, interquartile range / 1.34) n^(-1/5) ([1]_, equation
    3.31), of the two spreads only what is not 0, within ``BANDWIDTHS``. Reflection (section 2.10)
    keeps all of the density within [0, 1].

    Parameters
    ----------
    values : array of float, shape (n,)
        At least two, in [0, 1].
    places : array of float, shape (k,)
        Where, in [0, 1].

    Returns
    -------
    array of float, shape (k,)
        A score's density, whose integral over [0, 1] is 1.

    References
    ----------
    .. [1] B. W. Silverman, "Density Estimation for Statistics and Data Analysis", Chapman and Hall,
       1986.
    """
    x, grid = np.asarray(values, float), np.asarray(places, float)
    low, high = np.quantile(x, [0.25, 0.75])
    spreads = [spread for spread in (x.std(ddof=1), (high - low) / 1.34) if spread > 0]
    width = np.clip(0.9 * min(spreads, default=0.0) * len(x) ** -0.2, *BANDWIDTHS)
    centres = np.concatenate((x, -x, 2 - x))
    kernels = np.exp(-0.5 * ((grid[:, None] - centres) / width) ** 2)
    result: Floats = kernels.sum(axis=1) / (len(x) * width * (2 * np.pi) ** 0.5)
    return result


def _numbers(values: Floats, draws: int, seed: int) -> Row:
    n = len(values)
    if n == 0:
        return {"sites": 0, "reason": "no site has an affinity"}
    row: Row = {"sites": n, "mean": float(values.mean())}
    if n > 1:
        row["std"] = float(values.std(ddof=1))
    if n < LEAST_SITES:
        return row | {"reason": f"{counted(n, 'site')}, at least {LEAST_SITES} are needed"}
    if constant(values):
        return row | {"reason": "the affinity does not vary over the sites"}
    result = dip(values)
    row |= {"bimodality_coefficient": bimodality_coefficient(values), "dip": result}
    row["n_effective"] = effective_size(values)
    independent = max(int(row["n_effective"]), LEAST_SITES)
    return row | {"dip_p": dip_p(result, independent, draws, seed), "reason": ""}


def shapes_finding(shapes: pd.DataFrame) -> str:
    """Return how many models' scores look bimodal, as a sentence.

    Parameters
    ----------
    shapes : pandas.DataFrame
        From ``shapes``.
    """
    known = shapes[shapes["bimodality_coefficient"].notna()]
    if known.empty:
        return f"No model has {LEAST_SITES} different scores, as the shape of a distribution needs"
    bimodal = int((known["bimodality_coefficient"] > UNIFORM).sum())
    significant = int((known["p_corrected"] <= SIGNIFICANT).sum())
    effective = span(known["n_effective"].min(), known["n_effective"].max(), 0)
    blind = not significant and known["n_effective"].median() < FEW
    few = ", too few to show them" if blind else ""
    return (
        f"{bimodal} of {counted(len(known), 'model')} exceed a uniform distribution's bimodality;"
        f" in {significant} the dip test sees two heaps (p at most {SIGNIFICANT} after Holm's"
        f" correction; their sites are worth {effective} independent ones{few})"
    )
