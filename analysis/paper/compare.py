"""The numbers printed in the paper of the affinity score, and ours beside them.

``numbers.csv`` holds what Tables 1 to 3 and Figure 4 of the paper print. The runs to compare are
those of the members of the sets ``paper`` and ``paper-ssl``.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis.choices import PAPER_NAMES
from analysis.data.model_names import measured_on
from analysis.data.selection_fields import member_of
from analysis.data.tables import result_table
from analysis.data.validation import LAYERS, MODELS, require_columns
from analysis.paper.our_numbers import CHECKPOINTS, NETWORKS, OurNumbers
from analysis.relations.accuracy_predictors import NEEDED_OF_MODELS
from analysis.text import number
from survey.text import counted

#: The printed numbers: ``table,name,quantity,value,std``.
TABLE = Path(__file__).parent / "numbers.csv"

COLUMNS = {
    **dict.fromkeys(("table", "name", "quantity"), "str"),
    **dict.fromkeys(("paper", "paper_std", "ours", "ours_std", "ours_error"), "float64"),
    "n": "Int64",
    "difference": "float64",
    **dict.fromkeys(("dataset", "note", "reason"), "str"),
}

_NEEDED = (
    *("run_id", "model", "source", "architecture", "checkpoint", "family", "dataset", "pooling"),
    *("site", "role", "affinity", *PAPER_NAMES),
)

_NOTHING = "not surveyed"


def compare_paper(
    signatures: pd.DataFrame, models: pd.DataFrame, layers: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Put our numbers beside every number the paper prints.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``; the paper's ridge is absolute:
        ``Selection(ridges="absolute")``, with ``keep_flagged=True``. Runs with the weights of the
        sets ``paper`` and ``paper-ssl`` take part, each dataset and pooling by itself.
    models : pandas.DataFrame
        Rows of ``analysis.models``, for accuracies and characteristics.
    layers : pandas.DataFrame, optional
        Rows of ``analysis.layers``, from which our own error is estimated.

    Returns
    -------
    pandas.DataFrame
        One row a printed number: ``table`` (table1, table2, table3 or fig4), ``name`` (the
        paper's), ``quantity`` (a metric whose correlation with the affinity is meant, in tables 1
        and 2; a metric's mean, in table 3; a predictor of accuracy whose R2 is meant, in fig4),
        ``paper`` and ``paper_std`` (as printed), ``ours``, ``ours_std`` (as the paper's: over n,
        not n - 1), ``ours_error`` (standard error of ours from which images were seen: jackknife
        over batches [1]_, of all runs at once where they saw the same images; NaN without
        ``layers`` or with one batch), ``n`` (sites in table2,
        models in table1 and fig4, checkpoints in table3), ``difference`` (ours less the paper's),
        ``dataset`` (that ours was measured on, with the pooling unless that is mean), ``note``
        (what to know of ours), ``reason`` (why ours is blank; empty if it is not).

    Raises
    ------
    SettingsError
        If a column is missing.

    Notes
    -----
    Table 1 is the mean over the models of Table 2, with the deviation over n, to within rounding
    except for EfficientNets. Table 3 is taken as the mean over a checkpoint's sites, then mean and
    deviation over checkpoints; where the paper leaves open which of two checkpoints it means, the
    first that was measured stands for both. Figure 4 is fitted to the reported accuracies.

    References
    ----------
    .. [1] B. Efron and C. Stein, "The Jackknife Estimate of Variance", Annals of Statistics 9
       (1981), doi:10.1214/aos/1176345462.
    """
    require_columns(signatures, _NEEDED)
    require_columns(models, NEEDED_OF_MODELS, MODELS)
    layers = signatures.head(0).assign(batch=0) if layers is None else layers
    require_columns(layers, ("run_id", "batch", "site", "affinity"), LAYERS)
    members = {name: _members(signatures, name) for name in (NETWORKS, CHECKPOINTS)}
    signatures = signatures.assign(**members)
    surveyed = signatures[signatures[list(members)].notna().any(axis=1)]
    # Ours is of these sites alone, and so must its error be.
    layers = layers.merge(surveyed[["run_id", "site"]], on=["run_id", "site"])
    named = printed().rename(columns={"value": "paper", "std": "paper_std"})
    basics = {"ours": np.nan, "note": "", "dataset": "", "reason": _NOTHING}
    lines: list[dict[Any, Any]] = [basics | row for row in named.to_dict("records")]
    rows = []
    for _, sites in surveyed.groupby(["dataset", "pooling"], sort=True):
        ours = OurNumbers(sites, models, layers)
        place = {"dataset": measured_on(sites.iloc[0])}
        rows += [line | place | ours.compared_with(line) for line in lines]
    rows = rows or lines
    result = result_table(rows, COLUMNS, surveyed if len(surveyed) else signatures)
    result["difference"] = result["ours"] - result["paper"]
    return result


@functools.cache
def printed() -> pd.DataFrame:
    """Return the printed numbers: ``table``, ``name``, ``quantity``, ``value``, ``std``."""
    return pd.read_csv(TABLE)


def _members(signatures: pd.DataFrame, name: str) -> pd.Series[Any]:
    """Return which member of a set each row's run measured; missing where it is none."""
    columns = ["run_id", "source", "architecture", "checkpoint"]
    runs: list[dict[Any, Any]] = signatures[columns].drop_duplicates().to_dict("records")
    members = {run["run_id"]: member_of(name, run) for run in runs}
    return signatures["run_id"].map(members).astype("object")


def surveyed_rows(compared: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of ``compare_paper`` that are about something surveyed."""
    return compared[compared["reason"] != _NOTHING].reset_index(drop=True)


def paper_finding(compared: pd.DataFrame) -> str:
    """Return how far our numbers are from the paper's, as a sentence.

    Parameters
    ----------
    compared : pandas.DataFrame
        From ``compare_paper``.
    """
    rows = compared[compared["paper"].notna() & compared["ours"].notna()]
    if rows.empty:
        return "Nothing that the paper prints a number for was surveyed"
    correlated = rows[rows["table"].isin(["table1", "table2"])]
    shown = correlated if len(correlated) else rows
    noun = "correlations" if len(correlated) else "numbers"
    typical = float((shown["ours"] - shown["paper"]).abs().median())
    signs = int(((shown["ours"] < 0) == (shown["paper"] < 0)).sum())
    return (
        f"Our {noun} differ from the paper's by {number(typical)} in the median; {signs} of"
        f" {len(shown)} have its sign ({len(rows)} numbers compared)"
    )


def paper_sentences(compared: pd.DataFrame) -> list[str]:
    """Return the differences of each table and dataset, and how many numbers have none."""
    known = compared.dropna(subset="difference")
    sizes = known["difference"].abs().groupby([known["table"], known["dataset"]], sort=True)
    sentences = [
        f"{table} on {dataset}: {len(rows)} numbers, mean |difference| {rows.mean():.3f}, largest"
        f" {rows.max():.3f}."
        for (table, dataset), rows in sizes
    ]
    if lacking := int((compared["reason"] == _NOTHING).sum()):
        sentences.append(
            f"{counted(lacking, 'printed number')} of networks or weights that were not surveyed:"
            " a survey of the set paper on imagenet with the absolute ridge measures them."
        )
    return sentences
