"""Scoring of one site: its row, from its pooled pairs, also where a metric fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache, reduce
from operator import add
from typing import cast

import torch

from survey.capture.pooled_pair import PooledPair
from survey.errors import UndefinedScore
from survey.few_images import enough_images
from survey.metrics import chosen_quantities
from survey.metrics.affinity import defined_affinity
from survey.metrics.base import Quantity, values
from survey.metrics.pair import Pair
from survey.results import Flag, SiteScore, Status
from survey.settings import MeasureSettings

#: Mean variance under which the absolute ridge of 1e-6 decides the score.
RIDGE_VARIANCE = 1e-4

#: Rounding noise over deviation above which a score near 1 moves by over 1e-4: by the share
#: over sqrt(2).
ROUNDING_SHARE = 1.4e-4


#: Why a metric that the settings leave out has no value.
NOT_ASKED_FOR = "not asked for"


@cache
def _others(names: tuple[str, ...] | None) -> tuple[Quantity, ...]:
    """Return the quantities but the affinity, whose absence is a status rather than a note."""
    return tuple(each for each in chosen_quantities(names) if each.name != "affinity")


def score_pair(
    batch: int, site: int, parts: Sequence[PooledPair], settings: MeasureSettings
) -> SiteScore:
    """Return the row of one site on one batch.

    Parameters
    ----------
    batch, site : int
        Numbers of the batch and the site, counting from 0.
    parts : sequence of PooledPair
        The site's pooled pairs of each micro-batch, in order.
    settings : MeasureSettings
        Shrinkage, ridge and metrics.

    Returns
    -------
    SiteScore
        With an affinity in [0, 1] and status ``ok``, or with a status and a reason. The other
        metrics have a value or a note wherever there is a finite pair, notes alone where it is
        constant; where there is no pair, the reason speaks for them too.
    """
    quantities, every = _others(settings.metrics), _others(None)
    xs = [part.x for part in parts if part.x is not None]
    ys = [part.y for part in parts if part.y is not None]
    row = SiteScore(
        batch=batch,
        site=site,
        place=parts[0].site,
        channels=xs[0].shape[1] if xs else None,
        images=settings.score_images,
        status="failed",
        metrics=dict.fromkeys(quantity.name for quantity in every),
    )
    if len(xs) < len(parts) or len(ys) < len(parts):
        return replace(row, reason=next(part.reason for part in parts if part.reason))
    x, y = torch.cat(xs), torch.cat(ys)
    row = replace(row, flags=("few_images",) if x.shape[0] < enough_images(x.shape[1]) else ())
    if x.shape != y.shape:
        reason = f"the input has {x.shape[1]} channels and the output {y.shape[1]}"
        return replace(row, reason=reason)
    finite = torch.isfinite(x) & torch.isfinite(y)
    if not bool(finite.all()):
        bad = int((~finite).any(dim=1).sum())
        reason = f"{bad} of {x.shape[0]} images give values that are not finite"
        return replace(row, status="nonfinite", reason=reason, flags=("nonfinite", *row.flags))
    pair = Pair(
        x,
        y,
        settings.shrinkage,
        settings.ridge,
        before=reduce(add, (part.before for part in parts)),
        after=reduce(add, (part.after for part in parts)),
        resolution=parts[0].resolution,
        noise=parts[0].noise,
    )
    metrics, notes = values(quantities, pair)
    notes += tuple(f"{each.name}: {NOT_ASKED_FOR}" for each in every if each.name not in metrics)
    return replace(_with_affinity(row, pair), metrics={**row.metrics, **metrics}, notes=notes)


def _with_affinity(row: SiteScore, pair: Pair) -> SiteScore:
    variances = (pair.x.mean_variance, pair.y.mean_variance)
    decided = pair.ridge == "absolute" and min(variances) < RIDGE_VARIANCE
    ridged: tuple[Flag, ...] = ("ridge",) if decided else ()
    moved = pair.noise_share > ROUNDING_SHARE and pair.constant is None
    rounded: tuple[Flag, ...] = ("rounding",) if moved else ()
    described = replace(
        row,
        input_variance=variances[0],
        output_variance=variances[1],
        constant_fraction=pair.constant_fraction,
        flags=(*rounded, *ridged, *row.flags),
    )
    try:
        affinity = defined_affinity(pair)
    except UndefinedScore as error:
        if error.status == "failed":
            return replace(row, reason=error.message)
        flags = described.flags
        if error.status == "constant":
            dead: tuple[Flag, ...] = () if bool(pair.y.values.any()) else ("dead",)
            flags = ("constant", *dead, *flags)
        status = cast("Status", error.status)
        return replace(
            described, status=status, reason=error.message, raw_affinity=error.raw, flags=flags
        )
    return replace(described, status="ok", affinity=affinity, raw_affinity=affinity)
