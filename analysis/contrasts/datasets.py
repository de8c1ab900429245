"""Datasets: how far a model's signature moves on other images (Fig. 15).

Owns the comparison of each model's runs with its run on a reference dataset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis.data.model_names import checkpoint_names, measured_on
from analysis.data.paired_sites import last_run_each, paired
from analysis.data.random_weights import trained
from analysis.data.short_names import short_names
from analysis.data.tables import Row, result_table
from analysis.data.validation import require_columns
from analysis.text import number
from survey.errors import SettingsError, UnknownName
from survey.text import counted

#: What must be equal for two runs to differ in their datasets alone.
SETTING = ("source", "architecture", "checkpoint", "pooling")

COLUMNS = {
    **dict.fromkeys(("model", "family", "dataset", "reference"), "str"),
    "sites": "int64",
    **dict.fromkeys(("dtw", "euclidean", "mean_difference"), "float64"),
    **dict.fromkeys(("run_id", "source", "architecture", "checkpoint", "reason"), "str"),
}

SUMMARY_COLUMNS = {
    **dict.fromkeys(("dataset", "reference"), "str"),
    **dict.fromkeys(("n", "n_euclidean"), "int64"),
    **dict.fromkeys(("dtw", "dtw_std", "euclidean", "euclidean_std"), "float64"),
    "reason": "str",
}

_NEEDED = ("run_id", *SETTING, "dataset", "family", "site", "affinity")

#: Which distance: by dynamic time warping, or site by site.
Measure = Literal["dtw", "euclidean"]

#: How many architectures have each.
_COUNTS = {"dtw": "n", "euclidean": "n_euclidean"}


def dataset_deviations(
    signatures: pd.DataFrame, reference: str | None = None, *, untrained: bool = False
) -> pd.DataFrame:
    """Return how far each model's signature on each dataset is from that on a reference.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``: ``run_id``, ``source``, ``architecture``, ``checkpoint``,
        ``dataset``, ``pooling``, ``family``, ``site`` and ``affinity``.
    reference : str, optional
        The dataset to compare with; by default the one that most of the models with several were
        measured on, of several such the first by name.
    untrained : bool
        Whether random weights (``init:...``) count in means; each has its own row either way.

    Returns
    -------
    pandas.DataFrame
        One row a model and other dataset, where the model was measured on the reference too:
        ``model`` (architecture, with ``source:`` and ``@checkpoint``, by its short name, where
        several were compared),
        ``family``, ``dataset`` and ``reference`` (with the pooling unless that is mean), ``sites``
        (that have an affinity on both), ``dtw`` (dynamic time warping distance between the two
        signatures, each without its sites that have no affinity), ``euclidean`` (root of the summed
        squared differences site by site, over the sites that have an affinity on both),
        ``mean_difference`` (on this dataset less on the reference, over the same sites),
        ``run_id`` (of the run on this dataset), ``source``, ``architecture``, ``checkpoint``,
        ``reason`` (why something is blank; empty if nothing is).

    Raises
    ------
    UnknownName
        If no model was measured on the reference.
    SettingsError
        If there is nothing measured at all, or a column is missing.

    Notes
    -----
    The paper's text says DTW and its caption says Euclidean (Appendix H and Figure 15); here are
    both. Both grow with the number of sites.
    """
    require_columns(signatures, _NEEDED)
    if signatures.empty:
        raise SettingsError("there is no signature to compare datasets on")
    chosen = _reference(signatures, reference)
    result = result_table(_rows(signatures, chosen), COLUMNS, signatures)
    result.attrs["untrained"] = untrained
    by_model = result.groupby("model")
    many = by_model["checkpoint"].transform("nunique") > 1
    sources = by_model["source"].transform("nunique") > 1
    runs: list[dict[Any, Any]] = result.to_dict("records")
    short = checkpoint_names(runs)
    result.loc[many, "model"] += "@" + result.loc[many, "run_id"].map(short)
    result.loc[sources, "model"] = result["source"] + ":" + result["model"]
    return result


def dataset_summary(deviations: pd.DataFrame, *, untrained: bool | None = None) -> pd.DataFrame:
    """Return the mean deviation of each dataset over the models, as Figure 15's legend has it.

    Parameters
    ----------
    deviations : pandas.DataFrame
        What ``dataset_deviations`` returns.
    untrained : bool, optional
        Whether random weights (``init:...``) count; by default as the deviations were asked for.

    Returns
    -------
    pandas.DataFrame
        One row a dataset, of each reference the nearest first: ``dataset``, ``reference``, ``n``
        (architectures with a DTW deviation), ``n_euclidean`` (with a Euclidean one), ``dtw``,
        ``euclidean`` (means over the architectures, of which each counts once, with the mean over
        its checkpoints), ``dtw_std``, ``euclidean_std`` (sample deviations), ``reason`` (why
        something is blank).
    """
    needed = ("source", "architecture", "checkpoint", "dataset", "reference", "dtw", "euclidean")
    require_columns(deviations, needed, "dataset_deviations(signatures)")
    rows = []
    every = deviations.attrs.get("untrained") if untrained is None else untrained
    counting = _counted(deviations, untrained=bool(every))
    for (dataset, reference), runs in counting.groupby(["dataset", "reference"]):
        models = runs.groupby(["source", "architecture"])[["dtw", "euclidean"]].mean()
        row: Row = {"dataset": dataset, "reference": reference}
        row |= {"n": models["dtw"].count(), "n_euclidean": models["euclidean"].count()}
        for name in ("dtw", "euclidean"):
            row |= {name: models[name].mean(), f"{name}_std": models[name].std()}
        reasons = {0: "no model has a deviation", 1: "one model: no deviation over models"}
        rows.append(row | {"reason": reasons.get(row["n"], "")})
    result = result_table(rows, SUMMARY_COLUMNS, deviations)
    return result.sort_values(["reference", "dtw"], ignore_index=True)


def datasets_finding(deviations: pd.DataFrame, measure: Measure = "dtw") -> str:
    """Return on which datasets signatures move least and most, as a sentence.

    Distances from different references, of which each has its pooling, are not compared.

    Parameters
    ----------
    deviations : pandas.DataFrame
        From ``dataset_deviations``.
    measure : {"dtw", "euclidean"}
        Which distance.
    """
    if deviations[measure].isna().all():
        return "No model was measured on two datasets"
    means = dataset_summary(deviations).dropna(subset=measure)
    if means.empty:
        return "No model with trained weights was measured on two datasets"
    return "; ".join(
        _clause(str(reference), deviations[deviations["reference"] == reference], measure)
        for reference in sorted(means["reference"].unique())
    )


def _clause(reference: str, deviations: pd.DataFrame, measure: Measure) -> str:
    """Return on which datasets signatures move least and most from one reference."""
    means = dataset_summary(deviations).dropna(subset=measure)
    if len(means) > 1:
        # Deep networks move farther, and weights differ: the same ones compare datasets.
        means = dataset_summary(_on_all(deviations, measure))
        if means.empty:
            return (
                f"No architecture was measured on all datasets with the same weights, so that none"
                f" is nearer to {reference} than another"
            )
    means = means.sort_values(measure)
    first, last = means.iloc[0], means.iloc[-1]
    count = counted(int(means[_COUNTS[measure]].max()), "architecture")
    near, far = number(first[measure]), number(last[measure])
    if len(means) == 1:
        return f"{first['dataset']} is {near} away from {reference} ({count})"
    if near == far:
        return f"From {reference}, signatures move alike on every dataset: {near} ({count})"
    return (
        f"From {reference}, signatures move least on {first['dataset']} ({near}) and most"
        f" on {last['dataset']} ({far}; means over {count})"
    )


def _counted(deviations: pd.DataFrame, *, untrained: bool) -> pd.DataFrame:
    """Return the rows that count in means: without random weights, unless these do."""
    return deviations if untrained else deviations[trained(deviations["checkpoint"])]


def _on_all(deviations: pd.DataFrame, measure: Measure) -> pd.DataFrame:
    """Return the rows of weights that have a deviation on every dataset of any."""
    counts = _counted(deviations, untrained=bool(deviations.attrs.get("untrained")))
    known = counts[counts[measure].notna()]
    weights = known.groupby(["source", "architecture", "checkpoint"])
    datasets = weights["dataset"].transform("nunique")
    return known[datasets == known["dataset"].nunique()]


def _reference(signatures: pd.DataFrame, reference: str | None) -> str:
    runs = signatures.drop_duplicates([*SETTING, "dataset"])
    models = runs["dataset"].value_counts()
    if reference is None:
        # A dataset that many models were measured on alone compares with nothing.
        several = runs[runs.duplicated(list(SETTING), keep=False)]["dataset"].value_counts()
        counts = several if len(several) else models
        return str(min(counts[counts == counts.max()].index))
    if reference in models:
        return reference
    names = {short: name for name, short in short_names(map(str, models.index)).items()}
    if reference not in names:
        raise UnknownName("reference dataset", reference, names)
    return names[reference]


def _rows(signatures: pd.DataFrame, reference: str) -> Iterator[Row]:
    single = last_run_each(signatures)
    for _, runs in single.groupby(list(SETTING), sort=True):
        by_dataset = {
            str(sites["dataset"].iloc[0]): sites for _, sites in runs.groupby("run_id", sort=False)
        }
        origin = by_dataset.pop(reference, None)
        if origin is None:
            continue
        for _, sites in sorted(by_dataset.items()):
            first = sites.iloc[0]
            names = ("run_id", "source", "architecture", "checkpoint", "family")
            basics = {"model": first["architecture"], **{name: first[name] for name in names}}
            basics["dataset"] = measured_on(first)
            basics["reference"] = measured_on(origin.iloc[0])
            yield basics | _numbers(sites, origin)


def _numbers(sites: pd.DataFrame, origin: pd.DataFrame) -> Row:
    here, there = (each.sort_values("site")["affinity"].dropna() for each in (sites, origin))
    if here.empty or there.empty:
        which = "this dataset" if here.empty else "the reference"
        return {"sites": 0, "reason": f"no site has an affinity on {which}"}
    from analysis.statistics.dtw import dtw

    both = paired(sites, origin)
    row: Row = {"sites": both.shape[1], "dtw": dtw(here, there)}
    if both.shape[1] == 0:
        return row | {"reason": "no site has an affinity on both"}
    moved = both[0] - both[1]
    return row | {
        "euclidean": float(np.linalg.norm(moved)),
        "mean_difference": float(moved.mean()),
        "reason": "",
    }
