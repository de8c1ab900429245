"""Our numbers for those that the paper prints, from runs on one dataset with one pooling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from analysis.choices import PAPER_METRICS, PAPER_NAMES
from analysis.data.rows_of_runs import of_runs
from analysis.data.tables import Row
from analysis.paper.leave_one_batch_out import correlations_left_out, means_left_out
from analysis.relations.accuracy_regressions import regressions
from analysis.relations.metric_correlations import correlations
from analysis.statistics.jackknife import mean_error
from analysis.statistics.pearson import population_std
from catalog.models.sets import SETS

#: Sets of published weights: those of Tables 1 and 2 and Figure 4, and those of Table 3.
NETWORKS, CHECKPOINTS = "paper", "paper-ssl"

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

#: Groups of families by the paper's name for them in Figure 4.
GROUPS = {
    "Pre-residual": "pre-residual",
    "Residual": "residual",
    "NAS-based": "NAS-based",
    "ViTs": "ViT",
    "Post-ViT": "post-ViT",
}

#: Columns of ``runs`` that say which images a batch holds.
_BATCHED_BY = ("dataset_fingerprint", "order_seed", "images_per_score")

_COLUMNS = {name: column for column, name in PAPER_NAMES.items()} | {"affinity": "affinity"}


class OurNumbers:
    """Our numbers for those that the paper prints.

    Parameters
    ----------
    sites : pandas.DataFrame
        Rows of ``analysis.signatures`` on one dataset with one pooling, with a column for each of
        the sets ``NETWORKS`` and ``CHECKPOINTS``: the member that the run measured.
    models, layers : pandas.DataFrame
        Rows of ``analysis.models`` and ``analysis.layers``.
    """

    def __init__(self, sites: pd.DataFrame, models: pd.DataFrame, layers: pd.DataFrame) -> None:
        self._layers = layers
        self._networks = _one_run_a_label(sites, NETWORKS)
        runs = self._networks.drop_duplicates("run_id")[["run_id", "model", "family", "label"]]
        self._runs: list[dict[Any, Any]] = runs.to_dict("records")
        self._named = {run["label"].replace(" ", "_"): run for run in self._runs}
        batched = models[["run_id", *_BATCHED_BY]].dropna().itertuples(index=False, name=None)
        self._images = {run_id: tuple(images) for run_id, *images in batched}
        self._checkpoints = _one_run_a_label(sites, CHECKPOINTS)
        rows = correlations(self._networks, PAPER_METRICS, tested=False).to_dict("records")
        self._correlations = {(row["level"], row["name"], row["metric"]): row for row in rows}
        self._left_out = correlations_left_out(layers, self._networks, PAPER_METRICS)
        known = of_runs(models, self._networks)
        # The p-values are not used: one permutation is the least allowed.
        self._fits = regressions(self._networks, known, permutations=1, accuracy="reported")

    def compared_with(self, printed: Row) -> Row:
        """Return our number for a printed one; an empty row where it was not surveyed."""
        tables = {
            "table1": self._family,
            "table2": self._model,
            "table3": self._checkpoint,
            "fig4": self._fit,
        }
        return tables[printed["table"]](printed["name"], printed["quantity"])

    def _model(self, name: str, quantity: str) -> Row:
        """Return the correlation over the sites of a model."""
        run = self._named.get(name)
        if run is None:
            return {}
        metric, run_id = _COLUMNS[quantity], run["run_id"]
        ours = self._correlations["model", run["model"], metric]
        return {
            "ours": ours["pearson"],
            "ours_error": self._correlation_error([run_id], metric, 1),
            "n": ours["n"],
            "reason": ours["reason"],
        }

    def _family(self, name: str, quantity: str) -> Row:
        """Return the mean correlation over the models of a family, or over all."""
        average, metric = name == "Average", _COLUMNS[quantity]
        family, whole = ("all", _labels_of(NETWORKS)) if average else FAMILIES[name]
        ours = self._correlations.get(("all" if average else "family", family, metric))
        if ours is None:
            return {}
        run_ids = [
            run["run_id"]
            for run in self._runs
            if (average or run["family"] == family)
            and np.isfinite(self._correlations["model", run["model"], metric]["pearson"])
        ]
        n = int(ours["n"])
        return {
            "ours": ours["pearson"],
            "ours_std": float(population_std(ours["std"], n)) if n else np.nan,
            "ours_error": self._correlation_error(run_ids, metric, n),
            "n": n,
            "note": _part(n, whole, "models"),
            "reason": "" if np.isfinite(ours["pearson"]) else ours["reason"],
        }

    def _checkpoint(self, _name: str, quantity: str) -> Row:
        """Return a metric's mean over the sites, and then over the checkpoints."""
        metric = _COLUMNS[quantity]
        means = self._checkpoints.groupby("run_id")[metric].mean().dropna()
        n = len(means)
        if n == 0:
            return {}
        run_ids = [str(run_id) for run_id in means.index]
        left_out = means_left_out(self._layers, run_ids, metric)
        return {
            "ours": float(means.mean()),
            "ours_std": float(means.std(ddof=0)) if n > 1 else np.nan,
            "ours_error": mean_error(left_out, n, same_images=self._same_images(run_ids)),
            "n": n,
            "note": _part(n, _labels_of(CHECKPOINTS), "checkpoints"),
            "reason": "",
        }

    def _fit(self, name: str, quantity: str) -> Row:
        """Return the R2 of a predictor within a group of families."""
        what, predictor = quantity.split(" ", maxsplit=1)
        kind = "signature" if what == "statistic" else what
        fits = self._fits[(self._fits["group"] == GROUPS[name]) & (self._fits["kind"] == kind)]
        if not len(fits):
            return {}
        (ours,) = fits[fits["predictor"] == predictor].to_dict("records")
        best = fits[fits["picked"]].to_dict("records")
        notes = [f"our best {kind}: {each['predictor']}, {each['r2']:.3f}" for each in best]
        return {
            "ours": ours["r2"],
            "n": ours["n"],
            "note": "".join(notes),
            "reason": "" if np.isfinite(ours["r2"]) else ours["reason"],
        }

    def _correlation_error(self, run_ids: Sequence[str], metric: str, n: int) -> float:
        """Return the standard error of a mean over the correlations of n runs."""
        keys = [(run_id, metric) for run_id in run_ids]
        left_out = [self._left_out[key] for key in keys if key in self._left_out]
        return mean_error(left_out, n, same_images=self._same_images(run_ids))

    def _same_images(self, run_ids: Sequence[str]) -> bool:
        """Return whether a batch's number means the same images in all of the runs."""
        if len(run_ids) == 1:
            return True
        images = {self._images.get(run_id) for run_id in run_ids}
        return len(images) == 1 and None not in images


def _one_run_a_label(sites: pd.DataFrame, name: str) -> pd.DataFrame:
    """Return the sites of one run for each ``label`` of a set: the first in the set's order."""
    known = sites[sites[name].notna()]
    known = known.assign(label=known[name].map(SETS[name].label))
    places = {member: place for place, member in enumerate(SETS[name].members)}
    runs = known.drop_duplicates("run_id")
    ordered = runs.sort_values(name, key=lambda members: members.map(places), kind="stable")
    return of_runs(known, ordered.drop_duplicates("label"))


def _labels_of(name: str) -> int:
    """Return how many labels a set has."""
    return len(set(map(SETS[name].label, SETS[name].members)))


def _part(n: int, whole: int, noun: str) -> str:
    """Return how many of the paper's models a number is of; empty where it is of all."""
    return f"{n} of the paper's {whole} {noun}" if n < whole else ""
