"""The paper's printed numbers, and ours beside them.

Owns ``numbers.csv``: what the affinity score's paper prints in Tables 1 to 3 and Figure 4,
and which of our runs each number is about: the members of the sets ``paper`` and ``paper-ssl``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from importlib.resources import files
from typing import Any

import numpy as np
import pandas as pd

from analysis.data.model_names import measured_on
from analysis.data.selection import member_of
from analysis.data.tables import Row, result_table
from analysis.data.validation import LAYERS, MODELS, require_columns
from analysis.paper.leave_one_batch_out import correlations_left_out, means_left_out
from analysis.relations.accuracy_regressions import NEEDED_OF_MODELS, regressions
from analysis.relations.metric_correlations import PAPER_NAMES, correlations
from analysis.statistics.jackknife import LeftOut, mean_error
from analysis.statistics.pearson import population_std
from analysis.text import number
from catalog.models.sets import SETS
from survey.text import counted

#: The printed numbers: ``table,name,quantity,value,std``.
TABLE = files("analysis.paper") / "numbers.csv"

#: Families by the paper's name for them in Table 1, and how many networks of each it has.
FAMILIES = {
    "VGGs": ("VGG", 4),
    "ResNets": ("ResNet", 5),
    "DenseNets": ("DenseNet", 4),
    "MNASNets": ("MNASNet", 4),
    "EfficientNets": ("EfficientNet", 4),
    "ViTs": ("ViT", 5),
    "Swins": ("Swin", 3),
    "Convnexts": ("ConvNeXt", 4),
}

#: How many networks the paper has in all.
PAPER_NETWORKS = 36

#: Groups of families by the paper's name for them in Figure 4.
GROUPS = {
    "Pre-residual": "pre-residual",
    "Residual": "residual",
    "NAS-based": "NAS-based",
    "ViTs": "ViT",
    "Post-ViT": "post-ViT",
}

#: How many checkpoints Table 3 is about.
PAPER_CHECKPOINTS = 17

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

_Correlations = Mapping[tuple[str, str, str], Row]

_LeftOut = Mapping[tuple[str, str], LeftOut]

#: Columns of ``runs`` that say which images a batch holds.
_BATCHED_BY = ("dataset_fingerprint", "order_seed", "images_per_score")

_METRICS = {name: column for column, name in PAPER_NAMES.items()}
_NOTHING = "not surveyed"


def compare_paper(
    signatures: pd.DataFrame, models: pd.DataFrame, layers: pd.DataFrame | None = None
) -> pd.DataFrame:
    """Put our numbers beside every number the paper prints.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``. Runs with the weights of the sets ``paper`` and
        ``paper-ssl`` take part, each dataset and pooling by itself.
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
    if layers is not None:
        require_columns(layers, ("run_id", "batch", "site", "affinity"), LAYERS)
    signatures = signatures.assign(
        paper=_labels(signatures, "paper"), checkpoints=_labels(signatures, "paper-ssl")
    )
    surveyed = signatures[signatures[["paper", "checkpoints"]].notna().any(axis=1)]
    if layers is not None:
        # Ours is of these sites alone, and so must its error be.
        layers = layers.merge(surveyed[["run_id", "site"]], on=["run_id", "site"])
    rows: list[Row] = []
    for (dataset, pooling), sites in surveyed.groupby(["dataset", "pooling"], sort=True):
        named = measured_on(dataset, pooling)
        rows += [row | {"dataset": named} for row in _block_rows(sites, models, layers)]
    basics = {"ours": np.nan, "note": "", "dataset": "", "reason": _NOTHING}
    rows = [basics | row for row in rows or _printed_rows()]
    result = result_table(rows, COLUMNS, surveyed if len(surveyed) else signatures)
    result["difference"] = result["ours"] - result["paper"]
    return result


@functools.cache
def printed() -> pd.DataFrame:
    """Return what the paper prints: ``table``, ``name``, ``quantity``, ``value``, ``std``."""
    with TABLE.open(encoding="utf-8") as stream:
        table: pd.DataFrame = pd.read_csv(stream)
    return table


def _labels(signatures: pd.DataFrame, name: str) -> pd.Series[Any]:
    """Return the paper's label of each row's run; missing where it is not in the set."""
    columns = ["run_id", "source", "architecture", "checkpoint"]
    runs = _records(signatures[columns].drop_duplicates())
    members = {run["run_id"]: member_of(name, run) for run in runs}
    known = {run_id: SETS[name].label(each) for run_id, each in members.items() if each}
    return signatures["run_id"].map(known).astype("object")


def _printed_rows() -> Iterator[Row]:
    """Yield the printed numbers, each without one of ours."""
    for row in _records(printed()):
        names = {key: row[key] for key in ("table", "name", "quantity")}
        yield names | {"paper": row["value"], "paper_std": row["std"]}


def _records(frame: pd.DataFrame) -> list[Row]:
    return [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]


def _block_rows(
    sites: pd.DataFrame, models: pd.DataFrame, layers: pd.DataFrame | None
) -> Iterator[Row]:
    """Yield every printed number with ours, of runs on one dataset with one pooling."""
    paper = _one_run_a_label(sites, "paper")
    rows = _records(correlations(paper, tuple(_METRICS.values())))
    result = {(row["level"], row["name"], row["metric"]): row for row in rows}
    left_out = correlations_left_out(layers, paper, tuple(_METRICS.values()))
    fits = _fits(paper, models)
    checkpoints = _one_run_a_label(sites, "checkpoints")
    for row in _printed_rows():
        if row["table"] == "table2":
            yield row | _model_numbers(row, paper, result, left_out)
        elif row["table"] == "table1":
            yield row | _family_numbers(row, paper, models, result, left_out)
        elif row["table"] == "table3":
            yield row | _checkpoint_numbers(row["quantity"], checkpoints, models, layers)
        else:
            yield row | _fit_numbers(row, fits)


def _one_run_a_label(sites: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return the sites of one run for each label: the first in the set's order."""
    name = {"paper": "paper", "checkpoints": "paper-ssl"}[column]
    order = {member: place for place, member in enumerate(SETS[name].members)}
    known = sites[sites[column].notna()]
    runs = known.drop_duplicates("run_id")
    places = [order[str(member_of(name, run))] for run in _records(runs)]
    first = runs.assign(place=places).sort_values("place", kind="stable").drop_duplicates(column)
    return known[known["run_id"].isin(first["run_id"])]


def _model_numbers(row: Row, paper: pd.DataFrame, result: _Correlations, left_out: _LeftOut) -> Row:
    sites = paper[paper["paper"].str.replace(" ", "_") == row["name"]]
    if not len(sites):
        return {}
    metric, run_id = _METRICS[row["quantity"]], sites["run_id"].iloc[0]
    ours = result["model", sites["model"].iloc[0], metric]
    known = [left_out[run_id, metric]] if (run_id, metric) in left_out else []
    return {
        "ours": ours["pearson"],
        "ours_error": mean_error(known, 1, same_images=True),
        "n": ours["n"],
        "reason": ours["reason"],
    }


def _family_numbers(
    row: Row, paper: pd.DataFrame, models: pd.DataFrame, result: _Correlations, left_out: _LeftOut
) -> Row:
    average, metric = row["name"] == "Average", _METRICS[row["quantity"]]
    family, whole = ("all", PAPER_NETWORKS) if average else FAMILIES[row["name"]]
    key = ("all" if average else "family", family, metric)
    if key not in result:
        return {}
    ours = result[key]
    members = paper if average else paper[paper["family"] == family]
    named = members.drop_duplicates("run_id")[["run_id", "model"]].itertuples(index=False)
    run_ids = [
        run_id for run_id, model in named if np.isfinite(result["model", model, metric]["pearson"])
    ]
    known = [left_out[run_id, metric] for run_id in run_ids if (run_id, metric) in left_out]
    n = int(ours["n"])
    return {
        "ours": ours["pearson"],
        "ours_std": float(population_std(ours["std"], n)) if n else np.nan,
        "ours_error": mean_error(known, n, same_images=_same_images(models, run_ids)),
        "n": n,
        "note": f"{n} of the paper's {whole} models" if n < whole else "",
        "reason": "" if np.isfinite(ours["pearson"]) else ours["reason"],
    }


def _checkpoint_numbers(
    quantity: str, sites: pd.DataFrame, models: pd.DataFrame, layers: pd.DataFrame | None
) -> Row:
    column = "affinity" if quantity == "affinity" else _METRICS[quantity]
    means = sites.groupby("run_id")[column].mean().dropna()
    n = len(means)
    if n == 0:
        return {}
    run_ids = [str(run_id) for run_id in means.index]
    left_out = means_left_out(layers, run_ids, column)
    return {
        "ours": float(means.mean()),
        "ours_std": float(means.std(ddof=0)) if n > 1 else np.nan,
        "ours_error": mean_error(left_out, n, same_images=_same_images(models, run_ids)),
        "n": n,
        "note": (
            f"{n} of the paper's {PAPER_CHECKPOINTS} checkpoints" if n < PAPER_CHECKPOINTS else ""
        ),
        "reason": "",
    }


def _same_images(models: pd.DataFrame, run_ids: Sequence[str]) -> bool:
    """Return whether a batch's number means the same images in all of the runs."""
    runs = models.loc[models["run_id"].isin(list(run_ids)), list(_BATCHED_BY)]
    known = len(runs) == len(run_ids) and bool(runs.notna().all(axis=None))
    return known and len(runs.drop_duplicates()) == 1


def _fits(paper: pd.DataFrame, models: pd.DataFrame) -> pd.DataFrame:
    known = models[models["run_id"].isin(paper["run_id"])]
    # The p-values are not used: one permutation is the least allowed.
    result = regressions(paper, known, permutations=1, accuracy="reported")
    return result[result["kind"].isin(["signature", "characteristic"])]


def _fit_numbers(row: Row, fits: pd.DataFrame) -> Row:
    what, predictor = row["quantity"].split(" ", maxsplit=1)
    kind = "signature" if what == "statistic" else what
    group = fits[(fits["group"] == GROUPS[row["name"]]) & (fits["kind"] == kind)]
    if not len(group):
        return {}
    (ours,) = _records(group[group["predictor"] == predictor])
    best = _records(group[group["picked"]])
    return {
        "ours": ours["r2"],
        "n": ours["n"],
        "note": "".join(f"our best {kind}: {each['predictor']}, {each['r2']:.3f}" for each in best),
        "reason": "" if np.isfinite(ours["r2"]) else ours["reason"],
    }


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
            " survey run --model paper --dataset imagenet measures them."
        )
    return sentences
