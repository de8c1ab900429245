"""From one site's pooled pairs to its row. The one place where a failed metric becomes a row."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from survey.affinity import BREAKDOWNS, affinity, constant_columns
from survey.capture import PooledPair
from survey.moments import moments
from survey.signature import Flag, MeasureSettings, SiteScore, Status

#: Mean variance under which the absolute ridge of 1e-6 decides the score.
RIDGE_VARIANCE = 1e-4


@dataclass(frozen=True, slots=True)
class _Outcome:
    status: Status
    reason: str | None = None
    affinity: float | None = None
    raw: float | None = None
    input_variance: float | None = None
    output_variance: float | None = None
    constant_fraction: float | None = None
    flags: tuple[Flag, ...] = ()


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
        With an affinity in [0, 1] and status ``ok``, or with a status and a reason.
    """
    first = parts[0]
    xs = [part.x for part in parts if part.x is not None]
    ys = [part.y for part in parts if part.y is not None]
    if len(xs) < len(parts) or len(ys) < len(parts):
        reason = next(part.reason for part in parts if part.reason)
        outcome = _Outcome("failed", reason)
    else:
        outcome = _assess(torch.cat(xs), torch.cat(ys), first.resolution, settings)
    return SiteScore(
        batch=batch,
        site=site,
        site_name=first.site_name,
        activation=first.activation,
        call=first.call,
        layout=first.layout,
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
    )


def _assess(
    x: torch.Tensor, y: torch.Tensor, resolution: float, settings: MeasureSettings
) -> _Outcome:
    few: tuple[Flag, ...] = ("few_images",) if x.shape[0] <= x.shape[1] else ()
    if x.shape != y.shape:
        return _Outcome(
            "failed", f"the input has {x.shape[1]} channels and the output {y.shape[1]}", flags=few
        )
    if not (bool(torch.isfinite(x).all()) and bool(torch.isfinite(y).all())):
        bad = int((~(torch.isfinite(x) & torch.isfinite(y))).any(dim=1).sum())
        reason = f"{bad} of {x.shape[0]} images give values that are not finite"
        return _Outcome("nonfinite", reason, flags=("nonfinite", *few))
    try:
        return _score(x, y, resolution, settings, few)
    except BREAKDOWNS as error:
        return _Outcome("failed", f"the formula cannot be evaluated: {error}", flags=few)


def _score(
    x: torch.Tensor,
    y: torch.Tensor,
    resolution: float,
    settings: MeasureSettings,
    few: tuple[Flag, ...],
) -> _Outcome:
    x_moments = moments(x, settings.shrinkage, settings.ridge)
    y_moments = moments(y, settings.shrinkage, settings.ridge)
    constant = constant_columns(y, resolution)
    variances = (x_moments.mean_variance, y_moments.mean_variance)
    known = (*variances, float(constant.double().mean()))
    ridged: tuple[Flag, ...] = ("ridge",) if min(variances) < RIDGE_VARIANCE else ()
    if bool(constant.all()):
        dead: tuple[Flag, ...] = ("dead",) if not bool(y.any()) else ()
        reason = "the output is the same for every image"
        return _Outcome(
            "constant", reason, None, None, *known, flags=("constant", *dead, *ridged, *few)
        )
    raw = affinity(x_moments, y_moments)
    if not 0.0 <= raw <= 1.0:
        reason = f"the formula gives {raw:.4g}, outside [0, 1], for n={x.shape[0]}, c={x.shape[1]}"
        return _Outcome("out_of_range", reason, None, raw, *known, flags=(*ridged, *few))
    return _Outcome("ok", None, raw, raw, *known, flags=(*ridged, *few))
