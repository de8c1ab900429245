"""Curves: a run's affinity scores in execution order, as distances compare them.

Owns which sites make a curve and what a normalisation does to it. Computes no distance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from analysis.array_types import Floats, Integers, Strings
from analysis.choices import Normalisation
from analysis.data.validation import require_choice, require_columns
from survey.errors import SettingsError

#: How many relative depths a curve is laid on.
POINTS = 100

_NEEDED = ("run_id", "model", "site", "affinity")


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """The signature of one run."""

    run_id: str
    #: The run's label.
    model: str
    #: Mean affinities of the sites that have one, in execution order.
    values: Floats
    #: Relative depths of those sites, rising within [0, 1].
    depths: Floats
    #: Numbers of those sites.
    sites: Integers
    #: How many sites were left out for having no affinity.
    left_out: int

    def normalised(self, normalisation: Normalisation) -> Floats:
        """Return the values after normalisation."""
        return normalised(self.values, normalisation, depths=self.depths)


def curves(signatures: pd.DataFrame) -> list[Curve]:
    """Return the curves of a frame, in the order in which its runs appear.

    Parameters
    ----------
    signatures : pandas.DataFrame
        One row a run and site: ``run_id``, ``model``, ``site``, ``affinity`` and, where sites of a
        role were selected, ``relative_depth``.

    Returns
    -------
    list of Curve
        One a run. Sites without an affinity are left out and counted; so are runs that have no
        other sites, which ``without_curve`` names.

    Raises
    ------
    SettingsError
        If a column is missing, or a site of a run occurs twice.
    """
    require_columns(signatures, _NEEDED)
    if signatures.empty:
        return []
    runs = pd.factorize(signatures["run_id"])[0]
    order = np.lexsort((signatures["site"].to_numpy(), runs))
    starts = np.flatnonzero(np.diff(runs[order])) + 1
    # As arrays: a frame a run takes longer than the distances between them all.
    names = [each for each in (*_NEEDED, "relative_depth") if each in signatures]
    columns = (np.split(signatures[name].to_numpy()[order], starts) for name in names)
    return [curve for curve in map(_curve, *columns) if curve.values.size]


def without_curve(signatures: pd.DataFrame) -> tuple[str, ...]:
    """Return the labels of the runs that have no site with an affinity."""
    has_any = signatures["affinity"].notna().groupby(signatures["run_id"], sort=False).any()
    lacking = signatures["run_id"].isin(has_any.index[~has_any])
    return tuple(signatures.loc[lacking, "model"].unique())


def normalised(
    values: ArrayLike,
    normalisation: Normalisation,
    points: int = POINTS,
    depths: ArrayLike | None = None,
) -> Floats:
    """Return a curve after normalisation.

    Parameters
    ----------
    values : array of float, shape (n,)
        The curve, at least one value.
    normalisation : {"raw", "length", "relative"}
        ``relative`` takes the nearest site at equally spaced relative depths: between two sites
        no activation is measured, and a line between them would flatten a signature that goes
        up and down from site to site, as residual networks' do. The others leave the
        curve as it is (``length`` divides the distance, see ``analysis.similarity.distances``).
    points : int
        How many relative depths, at least 2.
    depths : array of float, shape (n,), optional
        Relative depths of the values, rising; equally spaced by default. Beyond the first and
        last of them the curve is continued as a constant.

    Returns
    -------
    array of float, shape (n,) or (points,)

    Raises
    ------
    SettingsError
        If the normalisation is unknown, the curve is empty or points are fewer than 2.
    """
    require_choice("normalisation", normalisation, Normalisation)
    curve = np.ascontiguousarray(values, dtype=np.float64)
    if not curve.size:
        raise SettingsError("a curve has no values, at least one is needed")
    if normalisation != "relative":
        return curve
    if points < 2:
        raise SettingsError(f"a curve over {points} relative depths, must be at least 2")
    places = np.linspace(0.0, 1.0, curve.size) if depths is None else np.asarray(depths, float)
    # Halfway between two sites the earlier one counts.
    between = (places[1:] + places[:-1]) / 2
    nearest: Floats = curve[np.searchsorted(between, np.linspace(0.0, 1.0, points))]
    return nearest


def _curve(
    run_ids: Strings,
    models: Strings,
    sites: Integers,
    affinities: Floats,
    relative_depths: Floats | None = None,
) -> Curve:
    """Return the curve of the sites of one run, which are in execution order."""
    if len(twice := sites[1:][sites[1:] == sites[:-1]]):
        raise SettingsError(
            f"site {twice[0]} of {models[0]} occurs twice",
            hint="give one row a run and site: signatures(), not layers()",
        )
    # Of all sites, so that a site without a value leaves its neighbours where they are.
    depths = sites / max(int(sites[-1]), 1) if relative_depths is None else relative_depths
    known = ~pd.isna(affinities)
    return Curve(
        run_id=str(run_ids[0]),
        model=str(models[0]),
        values=affinities[known].astype(np.float64),
        depths=depths[known].astype(np.float64),
        sites=sites[known].astype(np.int64),
        left_out=int((~known).sum()),
    )
