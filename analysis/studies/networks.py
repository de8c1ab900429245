"""Signatures of the bundled networks, measured here and now: what three studies share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd
import torch
from torch import nn

from analysis.data.validation import require_columns
from catalog.datasets.base import ImageDataset
from catalog.models.base import Architecture, InputTransform
from catalog.models.small import BUNDLED, SmallSource
from survey import InputError, MeasureSettings, UnknownName, measure

#: The network of the studies of one network: the bundled one that is most like the paper's VGG16.
NETWORK = "digits_vgg9"

#: What every network is shown: all 1797 images.
DATASET = "digits"


def bundled_network(name: str) -> Architecture:
    """Return a bundled network by its name, with or without ``small:``.

    Raises
    ------
    UnknownName
        If no bundled network is named so.
    """
    plain = name.removeprefix("small:")
    if plain not in BUNDLED:
        raise UnknownName("bundled network", name, BUNDLED)
    return SmallSource().get(plain)


def images_of(dataset: ImageDataset, transform: InputTransform) -> torch.Tensor:
    """Return every image of a dataset as a network sees it, N x 3 x size x size, float32."""
    pixels = [s.pixels for s in dataset.samples(transform) if s.pixels is not None]
    if not pixels:
        raise InputError(f"{dataset.name} holds no image that can be read")
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (transform.mean, transform.std))
    return (torch.stack(pixels).to(torch.float32) / 255 - mean) / std


def signature(model: nn.Module, images: torch.Tensor, images_per_score: int) -> pd.DataFrame:
    """Return a network's signature, averaged over whole batches.

    Parameters
    ----------
    model : torch.nn.Module
        The network.
    images : torch.Tensor
        N x 3 x H x W.
    images_per_score : int
        Images in one batch.

    Returns
    -------
    pandas.DataFrame
        ``site``, ``site_name``, ``activation``, ``images_per_score``, ``batches`` (whole ones),
        ``affinity`` (mean over the batches that have a score, else NaN), ``affinity_std`` (over
        batches; NaN for one), ``reason`` (of the first batch without a score, or None).
    """
    settings = MeasureSettings(images_per_score=images_per_score)
    scores = pd.DataFrame(
        {
            "site": row.site,
            "site_name": row.site_name,
            "activation": row.activation,
            "images_per_score": images_per_score,
            "affinity": float("nan") if row.affinity is None else row.affinity,
            "reason": row.reason,
        }
        for row in measure(model, images.split(256), settings)
    )
    keys = ["site", "site_name", "activation", "images_per_score"]
    averaged = scores.groupby(keys, as_index=False).agg(
        batches=("affinity", "size"),
        affinity=("affinity", "mean"),
        affinity_std=("affinity", "std"),
        reason=("reason", "first"),
    )
    return averaged.assign(
        reason=averaged["reason"].astype(object).where(averaged["reason"].notna(), None)
    )


def spread(signatures: pd.DataFrame, over: str) -> pd.DataFrame:
    """Return how far a site's score moves with one column.

    Parameters
    ----------
    signatures : pandas.DataFrame
        With ``architecture``, ``site``, ``site_name``, ``affinity`` and the column ``over``.
    over : str
        Such as ``seed`` or ``images_per_score``.

    Returns
    -------
    pandas.DataFrame
        ``architecture``, ``site``, ``site_name``, ``values`` (of ``over``), ``mean``, ``std``,
        ``low``, ``high``, ``range`` (high minus low).
    """
    require_columns(signatures, ("architecture", "site", "site_name", "affinity", over))
    grouped = signatures.groupby(["architecture", "site", "site_name"])
    table = grouped["affinity"].agg(["mean", "std", "min", "max"])
    table = table.rename(columns={"min": "low", "max": "high"})
    table.insert(0, "values", grouped[over].nunique())
    return table.assign(range=table["high"] - table["low"]).reset_index()


def several(networks: Sequence[str]) -> Iterator[Architecture]:
    """Yield bundled networks by name, all known before the first is used."""
    yield from [bundled_network(name) for name in networks]
