"""From one site's pooled pairs to its row. The one place where a failed metric becomes a row."""

from __future__ import annotations

import dataclasses
import functools
import operator
from dataclasses import dataclass, field

import torch

from survey.capture.forward import PooledPair
from survey.capture.near_zero import NearZero
from survey.metrics import all_quantities
from survey.metrics.affinity import raw_affinity
from survey.metrics.base import Quantity, breakdowns, values
from survey.metrics.pair import Pair
from survey.results import Flag, SiteScore, Status
from survey.settings import MeasureSettings

#: Mean variance under which the absolute ridge of 1e-6 decides the score.
RIDGE_VARIANCE = 1e-4


@functools.cache
def _others() -> tuple[Quantity, ...]:
    """Return every quantity but the affinity, whose absence is a status rather than a note."""
    return tuple(quantity for quantity in all_quantities() if quantity.name != "affinity")


def _no_values() -> dict[str, float | None]:
    return dict.fromkeys(quantity.name for quantity in _others())


@dataclass(frozen=True, slots=True)
class _Assessment:
    status: Status
    reason: str | None = None
    affinity: float | None = None
    raw: float | None = None
    input_variance: float | None = None
    output_variance: float | None = None
    constant_fraction: float | None = None
    flags: tuple[Flag, ...] = ()
    metrics: dict[str, float | None] = field(default_factory=_no_values)
    notes: tuple[str, ...] = ()


def score_pair(
    batch: int, site: int, parts: list[PooledPair], settings: MeasureSettings
) -> SiteScore:
    """Score one site on one batch.

    Parameters
    ----------
    batch, site : int
        Numbers of the batch and the site, counting from 0.
    parts : list of PooledPair
        The site's pooled pairs of each micro-batch, in order.
    settings : MeasureSettings
        Shrinkage and ridge.

    Returns
    -------
    SiteScore
        With an affinity in [0, 1] and status ``ok``, or with a status and a reason. The other
        metrics have a value or a note wherever there is a finite pair; where there is none, the
        reason speaks for them too.
    """
    xs = [part.x for part in parts if part.x is not None]
    ys = [part.y for part in parts if part.y is not None]
    if len(xs) < len(parts) or len(ys) < len(parts):
        reason = next(part.reason for part in parts if part.reason)
        outcome = _Assessment("failed", reason)
    else:
        outcome = _assess(torch.cat(xs), torch.cat(ys), parts, settings)
    return SiteScore(
        batch=batch,
        site=site,
        place=parts[0].site,
        channels=xs[0].shape[1] if xs else None,
        images=settings.images_per_score,
        affinity=outcome.affinity,
        status=outcome.status,
        reason=outcome.reason,
        raw_affinity=outcome.raw,
        input_variance=outcome.input_variance,
        output_variance=outcome.output_variance,
        constant_fraction=outcome.constant_fraction,
        flags=outcome.flags,
        notes=outcome.notes,
        metrics=outcome.metrics,
    )


def _assess(
    x: torch.Tensor, y: torch.Tensor, parts: list[PooledPair], settings: MeasureSettings
) -> _Assessment:
    few: tuple[Flag, ...] = ("few_images",) if x.shape[0] <= x.shape[1] else ()
    if x.shape != y.shape:
        return _Assessment(
            "failed", f"the input has {x.shape[1]} channels and the output {y.shape[1]}", flags=few
        )
    if not (bool(torch.isfinite(x).all()) and bool(torch.isfinite(y).all())):
        bad = int((~(torch.isfinite(x) & torch.isfinite(y))).any(dim=1).sum())
        reason = f"{bad} of {x.shape[0]} images give values that are not finite"
        return _Assessment("nonfinite", reason, flags=("nonfinite", *few))
    pair = Pair(
        x,
        y,
        settings.shrinkage,
        settings.ridge,
        before=_counted([part.before for part in parts]),
        after=_counted([part.after for part in parts]),
        resolution=parts[0].resolution,
    )
    try:
        outcome = _score(pair, few)
    except breakdowns() as error:
        outcome = _Assessment("failed", f"the formula cannot be evaluated: {error}", flags=few)
    metrics, notes = values(_others(), pair)
    return dataclasses.replace(outcome, metrics=metrics, notes=notes)


def _counted(counts: list[NearZero]) -> NearZero:
    return functools.reduce(operator.add, counts)


def _score(pair: Pair, few: tuple[Flag, ...]) -> _Assessment:
    variances = (pair.x.mean_variance, pair.y.mean_variance)
    known = (*variances, pair.constant_fraction)
    ridged: tuple[Flag, ...] = ("ridge",) if min(variances) < RIDGE_VARIANCE else ()
    if pair.has_constant_output:
        dead: tuple[Flag, ...] = ("dead",) if not bool(pair.y.values.any()) else ()
        reason = "the output is the same for every image"
        return _Assessment(
            "constant", reason, None, None, *known, flags=("constant", *dead, *ridged, *few)
        )
    raw = pair.once(raw_affinity)
    if not 0.0 <= raw <= 1.0:
        n, c = pair.images, pair.channels
        reason = f"the formula gives {raw:.4g}, outside [0, 1], for n={n}, c={c}"
        return _Assessment("out_of_range", reason, None, raw, *known, flags=(*ridged, *few))
    return _Assessment("ok", None, raw, raw, *known, flags=(*ridged, *few))
