"""Correlations of measures of whole networks with signatures and accuracy.

A deep network has a long path, and deep networks are the accurate ones: that a measure correlates
says little. So each correlation stands beside the one given depth, width and sparsity.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.choices import Accuracy
from analysis.data.checkpoint_means import checkpoint_means
from analysis.data.families import families_of
from analysis.data.model_names import measured_on
from analysis.data.network_measures import in_declared_order
from analysis.data.random_weights import trained
from analysis.data.tables import Row, result_table
from analysis.data.validation import MODELS, require_choice, require_columns
from analysis.relations.accuracy_predictors import known_accuracies, statistics
from analysis.relations.held_constant import alike, held_constant
from analysis.statistics.p_values import SIGNIFICANT, corrected
from analysis.statistics.partial_correlation import partial_correlation
from analysis.statistics.pearson import LEAST_SITES
from analysis.statistics.permutations import require_permutations
from analysis.text import chance, missing, number, spaced
from survey.text import counted

#: What a measure is correlated with: statistics of the signature, and top-1 accuracy.
TARGETS = ("mean", "min", "std", "top-1")

#: The call that returns measures, for hints.
MEASURES = "analysis.measure_scores(home)"

NEEDED_OF_SITES = ("run_id", "affinity", "channels", "sparsity_after")
NEEDED_OF_MODELS = (
    *("run_id", "model", "source", "architecture", "family", "checkpoint", "dataset", "pooling"),
    *("measured_top1", "reported_top1", "depth"),
)

COLUMNS = {
    **dict.fromkeys(("dataset", "measure", "target", "given"), "str"),
    **dict.fromkeys(("n", "families"), "int64"),
    **dict.fromkeys(("pearson", "low", "high", "spearman", "p", "p_corrected", "q"), "float64"),
    "reason": "str",
}


def measure_correlations(
    signatures: pd.DataFrame,
    models: pd.DataFrame,
    measures: pd.DataFrame,
    permutations: int = 9999,
    seed: int = 0,
    accuracy: Accuracy = "measured",
) -> pd.DataFrame:
    """Correlate each measure of whole networks with signatures and accuracy, per dataset.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``affinity``, ``channels`` and
        ``sparsity_after``.
    models : pandas.DataFrame
        Rows of ``analysis.models``: ``run_id``, ``model``, ``source``, ``architecture``,
        ``family``, ``checkpoint``, ``dataset``, ``pooling``, ``measured_top1``, ``reported_top1``
        and ``depth``. Runs of random weights (``init:...``) have no part in this.
    measures : pandas.DataFrame
        Rows of ``analysis.measure_scores``: ``run_id``, ``measure`` and ``value``.
    permutations : int
        How many permutations to draw for each p.
    seed : int
        Seed of the drawing.
    accuracy : {"measured", "reported"}
        Which top-1 is taken where a model has both; where it lacks that, the other is.

    Returns
    -------
    pandas.DataFrame
        Two rows a dataset, measure and target: ``dataset`` (with the pooling unless that is mean),
        ``measure``, ``target`` (one of ``TARGETS``), ``given`` (empty, or the variables of
        ``GIVEN`` that differ and that enough architectures have), ``n`` (points: architectures,
        each the mean over its checkpoints that have all of these), ``families``, ``pearson`` (given
        the others, of the residuals of least-squares fits on them), ``low`` and ``high`` (Fisher's
        95 % interval, which takes architectures for independent), ``spearman`` (the same of ranks),
        ``p`` (two-sided, by permutation of families and of architectures within each; see
        ``analysis.statistics.clustered_permutations``), ``p_corrected`` (Holm's, over the table)
        and ``q`` (the false discovery rate), and ``reason`` (why something is blank, or not held
        constant).

    Raises
    ------
    SettingsError
        If ``permutations`` is below 1, ``accuracy`` is neither, or a column is missing.
    """
    require_permutations(permutations)
    runs = measured_runs(signatures, models, measures, accuracy)
    names = in_declared_order(measures["measure"].unique())
    rows: list[Row] = []
    for dataset, members in runs.groupby("dataset", sort=True):
        for name, target in itertools.product(names, TARGETS):
            basics = {"dataset": dataset, "measure": name, "target": target}
            pairs = _rows(members, name, target, permutations, seed)
            rows += [basics | row for row in pairs]
    result = result_table(rows, COLUMNS, signatures, models)
    result[["p_corrected", "q"]] = np.transpose(corrected(result["p"]))
    return result


def measured_runs(
    signatures: pd.DataFrame,
    models: pd.DataFrame,
    measures: pd.DataFrame,
    accuracy: Accuracy = "measured",
) -> pd.DataFrame:
    """Return what is correlated; its parameters are those of ``measure_correlations``.

    Returns
    -------
    pandas.DataFrame
        One row a run that has any measure: ``dataset``, ``source``, ``architecture``,
        ``checkpoint``, ``model``, ``family`` (of ``analysis.data.families``), each measure,
        ``TARGETS``, and ``GIVEN`` of ``analysis.relations.held_constant``.
    """
    require_columns(signatures, NEEDED_OF_SITES)
    require_columns(models, NEEDED_OF_MODELS, MODELS)
    require_columns(measures, ("run_id", "measure", "value"), MEASURES)
    require_choice("accuracy", accuracy, Accuracy)
    values = measures.pivot(index="run_id", columns="measure", values="value")
    known = models.set_index("run_id")
    counts = known.index.isin(signatures["run_id"].unique()) & known.index.isin(values.index)
    known = known[counts & trained(known["checkpoint"])]
    numbers = values.join([_of_signatures(signatures), _of_models(known, accuracy)], how="right")
    texts = known[["source", "architecture", "checkpoint", "model"]].assign(
        dataset=pd.Series(map(measured_on, known.to_dict("records")), known.index, dtype=str),
        family=families_of(known),
    )
    return texts.join(numbers)


def points(runs: pd.DataFrame, names: Sequence[str]) -> pd.DataFrame:
    """Return an architecture a row, with the means over its checkpoints that have all numbers.

    Parameters
    ----------
    runs : pandas.DataFrame
        From ``measured_runs``.
    names : sequence of str
        The numbers.

    Returns
    -------
    pandas.DataFrame
        ``dataset``, ``source``, ``architecture``, ``model`` (the label of the only run; of several,
        the architecture), ``family`` and the numbers.
    """
    known = runs.dropna(subset=list(names))
    point = ["dataset", "source", "architecture"]
    groups = known.groupby(point)
    means = checkpoint_means(known, point, names).join(groups[["model", "family"]].first())
    means["model"] = means["model"].where(
        groups.size() == 1, means.index.get_level_values("architecture")
    )
    return means.reset_index()


def measures_finding(correlations: pd.DataFrame) -> str:
    """Return how much measures tell beside depth, width and sparsity, as a sentence.

    Parameters
    ----------
    correlations : pandas.DataFrame
        From ``measure_correlations``.
    """
    rows = correlations.to_dict("records")
    if not rows:
        return (
            "No selected run of trained weights has a measure of its whole network; a survey that"
            " asks for measures adds them"
        )
    tested = [row for row in rows if not missing(row["p"])]
    plain, given = ([row for row in tested if bool(row["given"]) is each] for each in (False, True))
    if not plain:
        return f"No measure of whole networks can be correlated: {rows[0]['reason']}"
    top = max(plain, key=_size)
    lead = f"{_named(top)} correlate most, by {_result(top)}"
    if not any(map(_significant, plain)):
        lead = f"{_NOTHING}: the largest correlation is {_result(top)}, of {_named(top)}"
    parts = [f"{lead}, over {counted(top['n'], 'architecture')}"]
    parts += [_beside(row) for row in rows if row["given"] and _pair(row) == _pair(top)]
    if any(map(_significant, given)):
        best = max(given, key=_size)
        parts.append(f"given these, {_named(best)} correlate most, by {_result(best)}")
    elif given and any(map(_significant, plain)):
        parts.append(
            f"none of {len(given)} correlations given these has p of at most {SIGNIFICANT:g}"
        )
    text = "; ".join(parts)
    return text[0].upper() + text[1:]


def _size(row: Mapping[Any, Any]) -> float:
    return abs(float(row["pearson"]))


def _significant(row: Mapping[Any, Any]) -> bool:
    return bool(row["p_corrected"] <= SIGNIFICANT)


def _pair(row: Mapping[Any, Any]) -> tuple[Any, ...]:
    return row["dataset"], row["measure"], row["target"]


def _named(row: Mapping[Any, Any]) -> str:
    return f"{spaced(row['measure'])} and {_TARGET_WORDS[row['target']]}"


def _result(row: Mapping[Any, Any]) -> str:
    return f"{number(row['pearson'])} ({chance(row['p_corrected'])} corrected)"


def _beside(row: Mapping[Any, Any]) -> str:
    if missing(row["pearson"]):
        return f"given {row['given']} there is none: {row['reason']}"
    return f"given {row['given']} it is {_result(row)}"


_NOTHING = "no measure correlates with signatures or accuracy beyond chance"

#: Targets in words.
_TARGET_WORDS = {
    "mean": "the mean affinity",
    "min": "the lowest affinity",
    "std": "the spread of the affinity",
    "top-1": "top-1 accuracy",
}


def _of_signatures(signatures: pd.DataFrame) -> pd.DataFrame:
    """Return the statistics of each run's signature, and its width and sparsity."""
    sites = signatures.groupby("run_id")
    table = statistics(signatures[signatures["affinity"].notna()])[["mean", "min", "std"]]
    width = np.log(sites["channels"].median().astype("float64"))
    return table.assign(width=width, sparsity=sites["sparsity_after"].mean().astype("float64"))


def _of_models(known: pd.DataFrame, accuracy: Accuracy) -> pd.DataFrame:
    depth = known["depth"].astype("float64")
    top1 = known_accuracies(known, accuracy)["top1"]
    return pd.DataFrame({"top-1": top1, "depth": np.log(depth.where(depth > 0))})


def _rows(
    members: pd.DataFrame, measure: str, target: str, permutations: int, seed: int
) -> Iterator[Row]:
    """Yield the plain correlation, and the one given what is known of depth, width, sparsity."""
    pairs = members.dropna(subset=[measure, target])
    given, few = held_constant(pairs)
    for others in ((), given) if given else ((),):
        rows = points(pairs, (measure, target, *others))
        result = _correlation(rows, measure, target, others, permutations, seed)
        yield {
            "given": ", ".join(others),
            "n": len(rows),
            "families": rows["family"].nunique(),
            **result,
            "reason": result["reason"] or (few if others else ""),
        }


def _correlation(
    rows: pd.DataFrame,
    measure: str,
    target: str,
    others: tuple[str, ...],
    permutations: int,
    seed: int,
) -> Row:
    least = LEAST_SITES + len(others)
    if len(rows) < least:
        counts = counted(len(rows), "architecture")
        return {"reason": f"{counts}, at least {least} are needed"}
    for name in (measure, target):
        if alike(rows[name]):
            return {"reason": f"{spaced(name)} does not vary over the architectures"}
    x, y, given = (rows[name].to_numpy(float) for name in (measure, target, list(others)))
    result = partial_correlation(x, y, given, rows["family"].to_numpy(), permutations, seed)
    if result is None:
        return {"reason": f"{', '.join(others)} determine it"}
    values = ("pearson", "low", "high", "spearman", "p")
    return {"reason": "", **{name: getattr(result, name) for name in values}}
