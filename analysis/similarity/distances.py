"""Distances between the signatures of models, as a table of pairs and as a matrix.

Owns which curves are compared and what a normalisation does to a distance;
``analysis.statistics.dtw`` computes them, ``analysis.similarity.distance_cache`` stores them.

Notes
-----
``relative``, the default, lays each signature on 100 equally spaced relative depths, each with the
score of the nearest site, and warps these. ``raw`` is the dynamic time warping distance of the
signatures as they are, which is the paper's [1]_: a sum along the path, so it grows with the number
of sites. ``length`` is sqrt(S / (n + m)) for the least sum of squared differences S, the
normalisation by n + m of [2]_; the path stays that of ``raw``.

References
----------
.. [1] The affinity score's paper, section on hierarchical clustering and Fig. 14.
.. [2] H. Sakoe, S. Chiba, "Dynamic programming algorithm optimization for spoken word
   recognition", IEEE Transactions on Acoustics, Speech, and Signal Processing 26 (1978), 43-49,
   doi:10.1109/TASSP.1978.1163055.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike

from analysis.array_types import Floats
from analysis.choices import NORMALISATION, Normalisation
from analysis.data.provenance import provenance_of
from analysis.data.validation import require_columns
from analysis.similarity.distance_cache import FILE_NAME, DistanceCache, digest
from analysis.similarity.signature_curve import Curve, curves, without_curve
from analysis.statistics import dtw
from analysis.text import number
from catalog.home import Home
from survey.errors import SettingsError, UnknownName
from survey.text import counted, first_names

#: Models up to which a notebook shows a matrix whole.
SHOWN = 20

#: Runs of a matrix at most: its memory grows with their square, to a gigabyte at this number.
MOST_RUNS = 5000

#: Columns of the runs of a matrix, taken from the frame; None where it lacks them.
DESCRIBED = ("source", "architecture", "checkpoint", "dataset", "family", "family_group")


#: All columns of signatures that a matrix is made from.
READ = ("run_id", "model", "site", "relative_depth", "role", "affinity", *DESCRIBED)


@dataclass(frozen=True, slots=True, eq=False)
class DistanceMatrix:
    """All distances between the signatures of some runs."""

    #: One row a run, in the order of the matrix: ``run_id``, ``model``, ``DESCRIBED``, ``sites``
    #: (that have an affinity) and ``left_out`` (that have none).
    runs: pd.DataFrame
    #: Distances, shape (m, m): symmetric, 0 on the diagonal.
    values: Floats
    normalisation: Normalisation
    #: Radius of the Sakoe-Chiba band in sites, or points for ``relative``; None for no band.
    band: int | None
    #: The signatures, in the order of the matrix.
    curves: tuple[Curve, ...]
    #: Labels of runs that have no affinity at any site, and so are not in the matrix.
    without: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def __repr__(self) -> str:
        return f"<DistanceMatrix: {self._contents()}>"

    def _repr_html_(self) -> str:
        """Return the distances as a table for a notebook, its first ``SHOWN`` models."""
        names = self.runs["model"].head(SHOWN)
        cells = pd.DataFrame(self.values[:SHOWN, :SHOWN], index=names.array, columns=names.array)
        cut = f"; the first {SHOWN} are shown" if len(self) > SHOWN else ""
        caption = escape(f"{self._contents()}{cut}. {provenance_of(self.runs).caption()}")
        table = cells.to_html(float_format="{:.3f}".format, border=0)
        return table.replace(">", f"><caption>{caption}</caption>", 1)

    def _contents(self) -> str:
        """Return what is compared, and how far apart it is."""
        text = f"{distance_words(self)}, {counted(len(self), 'model')}"
        apart = self.values[np.triu_indices(len(self), 1)]
        return f"{text}: {apart.min():.3f} to {apart.max():.3f}" if apart.size else text

    def place(self, name: str) -> int:
        """Return which row is meant by a model's name, its architecture's, or an id's beginning.

        Raises
        ------
        UnknownName
            If it is none of these.
        SettingsError
            If it begins the ids of several runs.
        """
        for column in ("model", "run_id", "architecture"):
            exact = np.flatnonzero(self.runs[column] == name)
            if len(exact) == 1:
                return int(exact[0])
        begun = np.flatnonzero(self.runs["run_id"].str.startswith(name))
        if len(begun) == 1:
            return int(begun[0])
        if len(begun) > 1:
            raise SettingsError(
                f"{name!r} begins the ids of {len(begun)} runs", hint="give more of the id"
            )
        several = self.runs.loc[self.runs["architecture"] == name, "model"]
        if len(several):
            raise SettingsError(f"{name!r} has {len(several)} runs: {first_names(several)}")
        raise UnknownName("model", name, list(self.runs["model"]))


def distances(
    signatures: pd.DataFrame,
    normalisation: Normalisation = NORMALISATION,
    band: int | None = None,
    cache: bool = True,
) -> pd.DataFrame:
    """Return the distances between the signatures of all pairs of runs.

    Parameters
    ----------
    signatures : pandas.DataFrame
        One row a run and site, of ``analysis.signatures``.
    normalisation : {"raw", "length", "relative"}
        What is done about unequal lengths; see this module.
    band : int, optional
        Radius of a Sakoe-Chiba band, in sites (in points for ``relative``).
    cache : bool
        Whether to use the distances kept in the home the frame came from.

    Returns
    -------
    pandas.DataFrame
        One row a pair, the run that comes first in the frame first: ``run_id``, ``model``,
        ``family``, ``other_run_id``, ``other_model``, ``other_family`` and ``distance`` (in
        units of affinity). No rows for one run.

    Raises
    ------
    SettingsError
        If no run has a site with an affinity, or an argument is out of range.
    """
    return distance_pairs(distance_matrix(signatures, normalisation, band, cache))


def distance_pairs(matrix: DistanceMatrix) -> pd.DataFrame:
    """Return the distances of a matrix, one row a pair; see ``distances``."""
    first, second = np.triu_indices(len(matrix), 1)
    named = matrix.runs[["run_id", "model", "family"]]
    left, right = (named.iloc[places].reset_index(drop=True) for places in (first, second))
    table = left.join(right.add_prefix("other_")).assign(distance=matrix.values[first, second])
    table.attrs = matrix.runs.attrs
    return table


def distance_matrix(
    signatures: pd.DataFrame,
    normalisation: Normalisation = NORMALISATION,
    band: int | None = None,
    cache: bool = True,
) -> DistanceMatrix:
    """Return the distances between the signatures of all runs as a matrix; see ``distances``.

    Raises
    ------
    SettingsError
        If no run has a site with an affinity, there are more than ``MOST_RUNS``, or an argument is
        out of range.
    """
    # Curves are taken from few runs alone: of many they take as long as an answer may.
    require_columns(signatures, ["run_id"])
    if (many := signatures["run_id"].nunique()) > MOST_RUNS:
        raise SettingsError(
            f"{counted(many, 'run')}: distances are between at most {MOST_RUNS:,}",
            hint="choose fewer by family, model or dataset",
        )
    result, without = curves(signatures), without_curve(signatures)
    if not result:
        raise SettingsError(
            f"none of {many} runs has a site with an affinity" if many else "there are no runs",
            hint="survey sql 'SELECT * FROM failures' shows what went wrong",
        )
    home = signatures.attrs.get("home") if cache else None
    kept = DistanceCache(Home(Path(home)).cache / FILE_NAME) if isinstance(home, str) else None
    values = distance_values(result, normalisation, band, kept)
    runs = _runs(signatures, result)
    runs.attrs = {**signatures.attrs, "normalisation": normalisation, "band": band}
    return DistanceMatrix(runs, values, normalisation, band, tuple(result), without)


def distance_words(matrix: DistanceMatrix) -> str:
    """Return which distances a matrix holds, such as ``Relative DTW, band 3``."""
    band = "" if matrix.band is None else f", band {matrix.band}"
    return f"{matrix.normalisation.capitalize()} DTW{band}"


def distances_finding(matrix: DistanceMatrix) -> str:
    """Return which models are nearest and which furthest apart, as a sentence."""
    names = list(matrix.runs["model"])
    first, second = np.triu_indices(len(matrix), 1)
    if not first.size:
        return f"{counted(len(matrix), 'model')}, no distance between any two"
    apart = matrix.values[first, second]
    near, far = int(apart.argmin()), int(apart.argmax())
    pair = {place: f"{names[first[place]]} and {names[second[place]]}" for place in (near, far)}
    if len(matrix) == 2:
        return f"{pair[near]} are {number(apart[near])} apart"
    if number(apart[near]) == number(apart[far]):
        return f"All {len(matrix)} models are equally far apart: {number(apart[near])}"
    return (
        f"{pair[near]} are nearest ({number(apart[near])}), {pair[far]} furthest apart"
        f" ({number(apart[far])}; n = {len(matrix)} models)"
    )


def distance_values(
    signatures: Sequence[Curve],
    normalisation: Normalisation,
    band: int | None,
    cache: DistanceCache | None = None,
    dtype: DTypeLike = np.float64,
) -> Floats:
    """Return the distances between curves, shape (m, m), computed in a precision."""
    prepared = [curve.normalised(normalisation) for curve in signatures]
    squares = _squares(prepared, band, cache, dtype)
    if normalisation == "length":
        sizes = np.array([curve.size for curve in prepared])
        squares = squares / np.add.outer(sizes, sizes)
    return np.sqrt(squares)


def _squares(
    prepared: Sequence[Floats], band: int | None, cache: DistanceCache | None, dtype: DTypeLike
) -> Floats:
    """Return squared distances; equal curves are warped once, known ones not at all."""
    if band is not None and band < 0:
        raise SettingsError(f"the band is {band}, must be at least 0 or none")
    digests, first, back = np.unique(
        [digest(curve) for curve in prepared], return_index=True, return_inverse=True
    )
    names = digests.tolist()
    known = cache.fetch(names, band) if cache else np.full((len(names),) * 2, np.nan)
    np.fill_diagonal(known, 0.0)
    pairs = np.argwhere(np.triu(np.isnan(known), 1))
    if len(pairs):
        fresh = np.full_like(known, np.nan)
        sums = dtw.squared_sums([prepared[place] for place in first], pairs, band, dtype)
        fresh[tuple(pairs.T)] = fresh[tuple(pairs[:, ::-1].T)] = sums
        if cache:
            cache.store(names, band, fresh)
        known = np.where(np.isnan(known), fresh, known)
    return known[np.ix_(back, back)]


def _runs(signatures: pd.DataFrame, result: Sequence[Curve]) -> pd.DataFrame:
    described = signatures.drop_duplicates("run_id").set_index("run_id")
    described = described.reindex(columns=list(DESCRIBED))
    table = pd.DataFrame(
        {
            "run_id": [curve.run_id for curve in result],
            "model": [curve.model for curve in result],
            "sites": [curve.values.size for curve in result],
            "left_out": [curve.left_out for curve in result],
        }
    ).join(described, on="run_id")
    return table[["run_id", "model", *DESCRIBED, "sites", "left_out"]]
