"""Stability of clusters under a bootstrap over batches of images.

Notes
-----
Each draw takes, for every run by itself, one batch less than it has, with replacement, and means
over them make its signature: means over B draws of B batches would have (B - 1) / B of the variance
that means over B new batches have, those over B - 1 draws have all of it [2]_. The signatures are
clustered anew by the same normalisation, band, linkage and number of clusters. A cluster's
stability [1]_ is the mean over draws of its largest Jaccard similarity |A and B| / |A or B| with a
cluster of the draw. Hennig takes 0.5 and less for a cluster that dissolved, 0.75 and more for a
stable one. Models are not drawn, only batches: this measures the share of the images, not whether
other models would form the clusters.

A run that was measured on one batch has the same signature in every draw, which makes clusters
look stabler than they are known to be; ``Clustering.table.attrs`` names such runs.

References
----------
.. [1] C. Hennig, "Cluster-wise assessment of cluster stability", Computational Statistics & Data
   Analysis 52 (2007), 258-271, doi:10.1016/j.csda.2006.11.025.
.. [2] P. J. McCarthy and C. B. Snowden, "The Bootstrap and Finite Population Sampling", Vital and
   Health Statistics 2-95 (1985).
"""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.array_types import Floats, Integers
from analysis.similarity.clusters import Clustering, partition
from analysis.similarity.distances import distance_values
from analysis.similarity.signature_curve import Curve
from survey.errors import SettingsError
from survey.text import counted

#: Draws of batches by default.
DRAWS = 100


@dataclass(frozen=True, slots=True, eq=False)
class RunBatches:
    """One run's affinities by batch and site, NaN where there is none."""

    curve: Curve
    #: The numbers of the batches that have any.
    batches: tuple[int, ...]
    affinity: Floats

    def drawn(self, times: Integers) -> Curve:
        """Return the run's signature over batches that were drawn so many times each."""
        there = ~np.isnan(self.affinity)
        weights = times @ there
        # No site with a score in this draw: as if nothing had been drawn.
        if not weights.any():
            return self.curve
        kept = weights > 0
        values = (times @ np.where(there, self.affinity, 0.0))[kept] / weights[kept]
        return dataclasses.replace(self.curve, values=values, depths=self.curve.depths[kept])


def with_stability(
    clustering: Clustering,
    layers: pd.DataFrame,
    draws: int = DRAWS,
    seed: int = 0,
    watch: Callable[[range], Iterable[int]] = iter,
) -> Clustering:
    """Return the clusters with their stability under a bootstrap over batches.

    Parameters
    ----------
    clustering : Clustering
        Clusters of runs.
    layers : pandas.DataFrame
        One row a run, batch and site, of ``analysis.layers``: ``run_id``, ``batch``, ``site`` and
        ``affinity``. Runs that are not clustered are passed over.
    draws : int
        How often batches are drawn, at least 1.
    seed : int
        Of the draws.
    watch : callable, optional
        Returns the numbers of the draws it is given one by one, and may show progress.

    Returns
    -------
    Clustering
        Its table with ``stability`` in [0, 1], the same for all models of a cluster, NaN for all
        where no run has more than one batch. ``attrs["one_batch"]`` holds the labels of runs with
        one, ``attrs["draws"]`` and ``attrs["seed"]`` what was done.

    Raises
    ------
    SettingsError
        If draws are fewer than 1, or the frame lacks a clustered run.
    """
    if draws < 1:
        raise SettingsError(f"{draws} draws of batches, must be at least 1")
    runs = _measured(clustering.matrix.curves, layers)
    one_batch = [run.curve.model for run in runs if len(run.batches) < 2]
    table = clustering.table.copy()
    if len(one_batch) < len(runs):
        rng = np.random.default_rng(seed)
        members = table["cluster"].to_numpy(np.int64) - 1
        drawn = (drawn_together(runs, rng) for _ in watch(range(draws)))
        result = [jaccards(members, others) for others in _partitions(clustering, drawn)]
        table["stability"] = np.mean(result, axis=0)[members]
    table.attrs = {**clustering.table.attrs, "draws": draws, "seed": seed, "one_batch": one_batch}
    return dataclasses.replace(clustering, table=table)


def stability_sentence(clustering: Clustering) -> str:
    """Return how stable the clusters are, by how many draws, as a sentence.

    Parameters
    ----------
    clustering : Clustering
        From ``with_stability``.
    """
    table, attrs = clustering.table, clustering.table.attrs
    once = len(attrs["one_batch"])
    if once == len(table):
        return "Every model was measured on one batch: how stable clusters are is not known."
    known = table.groupby("cluster")["stability"].first()
    shares = " to ".join(dict.fromkeys(f"{share:.2f}" for share in (known.min(), known.max())))
    same = f" {counted(once, 'model')} measured on one batch cannot move." if once else ""
    return (
        f"Had other images been measured, a cluster would share {shares} of its models with its"
        f" nearest among the new ones (Jaccard's index, the mean over {attrs['draws']} draws of"
        f" batches with replacement, after Hennig 2007; 0.75 and more is stable).{same}"
    )


def jaccards(members: Integers, others: Integers) -> Floats:
    """Return each cluster's largest Jaccard similarity with a cluster of another partition.

    Parameters
    ----------
    members : array of int, shape (m,)
        The cluster of each model, 0 to k - 1.
    others : array of int, shape (m,)
        Its cluster in the other partition, 0 to l - 1.

    Returns
    -------
    array of float, shape (k,)
        In (0, 1], 1 for a cluster that both have.
    """
    both = np.zeros((members.max() + 1, others.max() + 1))
    np.add.at(both, (members, others), 1)
    either = both.sum(1, keepdims=True) + both.sum(0, keepdims=True) - both
    best: Floats = (both / np.maximum(either, 1)).max(axis=1)
    return best


def _partitions(clustering: Clustering, drawn: Iterable[Sequence[Curve]]) -> Iterator[Integers]:
    """Yield the clusters of each draw, in order, two at a time.

    All cores warp the curves of one while this process prepares the next.
    """
    waiting = deque[Future[Integers]]()
    with ThreadPoolExecutor(2) as pool:
        for curves in drawn:
            waiting.append(pool.submit(_partition, clustering, curves))
            if len(waiting) > 2:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


def _partition(clustering: Clustering, curves: Sequence[Curve]) -> Integers:
    """Return the clusters of the models with the signatures of a draw."""
    old = clustering.matrix
    # Seven digits: the draws themselves move distances far more.
    values = distance_values(curves, old.normalisation, old.band, dtype=np.float32)
    return partition(values, clustering.method, clustering.number)


def drawn_together(runs: Sequence[RunBatches], rng: np.random.Generator) -> list[Curve]:
    """Return the signatures of all runs over batches that are drawn with replacement.

    One draw serves all runs with batches of the same numbers: those on one dataset were measured on
    the same images, which move their scores together. Where the images differ, nothing is lost.
    """
    numbers = {run.batches: len(run.batches) for run in runs}
    times = {
        batches: rng.multinomial(n - 1, np.full(n, 1 / n))
        for batches, n in numbers.items()
        if n > 1
    }
    return [run.drawn(times[run.batches]) if run.batches in times else run.curve for run in runs]


def _measured(curves: Sequence[Curve], layers: pd.DataFrame) -> list[RunBatches]:
    wanted = layers[layers["run_id"].isin([curve.run_id for curve in curves])]
    by_run = dict(iter(wanted.groupby("run_id")))
    missing = [curve.model for curve in curves if curve.run_id not in by_run]
    if missing:
        raise SettingsError(
            f"the batches of {missing[0]} are not in the frame, nor those of"
            f" {len(missing) - 1} other clustered runs",
            hint="take both frames from the same home with the same selection",
        )
    return [_by_batch(curve, by_run[curve.run_id]) for curve in curves]


def _by_batch(curve: Curve, rows: pd.DataFrame) -> RunBatches:
    """Return affinities, one row a batch that has any, one column a site of the curve."""
    rows = rows[rows["site"].isin(curve.sites)]
    batches, row = np.unique(rows["batch"], return_inverse=True)
    table: Floats = np.full((len(batches), len(curve.sites)), np.nan)
    table[row, np.searchsorted(curve.sites, rows["site"])] = rows["affinity"]
    known = ~np.isnan(table).all(axis=1)
    return RunBatches(curve, tuple(batches[known].tolist()), table[known])
