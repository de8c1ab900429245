"""Signatures of the bundled networks, measured on the spot: what three studies share."""

from __future__ import annotations

from pathlib import Path

import altair as alt
import pandas as pd
import torch

from analysis.data.measured_rows import score_frame
from analysis.data.validation import require_columns
from analysis.figures.theme import AFFINITY, styled
from catalog.checkpoint_references import resolve
from catalog.datasets import open_dataset
from catalog.model_loading import load_model
from catalog.models.base import Architecture, InputTransform
from catalog.models.cifar import BUNDLED, CifarSource
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
    return CifarSource().get(plain)


def images_of(dataset: str, transform: InputTransform) -> torch.Tensor:
    """Return the normalised images of a dataset by its name, float32, N x 3 x size x size."""
    samples = open_dataset(dataset, Path()).samples(transform)
    pixels = [sample.pixels for sample in samples if sample.pixels is not None]
    if not pixels:
        raise InputError(f"{dataset} holds no image that can be read")
    mean, std = (torch.tensor(v).view(3, 1, 1) for v in (transform.mean, transform.std))
    return (torch.stack(pixels).to(torch.float32) / 255 - mean) / std


def signature(
    architecture: Architecture,
    reference: str,
    images: torch.Tensor,
    images_per_score: int,
    **labels: object,
) -> pd.DataFrame:
    """Return a network's signature, averaged over whole batches.

    Parameters
    ----------
    architecture : Architecture
        The network.
    reference : str
        The checkpoint, as in ``survey run --checkpoint``.
    images : torch.Tensor
        N x 3 x H x W.
    images_per_score : int
        Images in one batch.
    **labels : object
        Further columns, equal in every row.

    Returns
    -------
    pandas.DataFrame
        ``architecture``, the labels, ``site``, ``site_name``, ``activation``,
        ``images_per_score``, ``batches`` (whole ones), ``affinity`` (mean over the batches that
        have a score, else NaN), ``affinity_std`` (over batches; NaN for one), ``reason`` (of the
        first batch without a score, or None).
    """
    model = load_model(architecture, resolve(reference, architecture, Path())).model
    settings = MeasureSettings(images_per_score=images_per_score)
    scores = score_frame(measure(model, images.split(256), settings)).astype({"affinity": "float"})
    keys = ["site", "site_name", "activation"]
    averaged = scores.groupby(keys, as_index=False).agg(
        batches=("affinity", "size"),
        affinity=("affinity", "mean"),
        affinity_std=("affinity", "std"),
        reason=("reason", "first"),
    )
    averaged.insert(len(keys), "images_per_score", images_per_score)
    reasons = averaged["reason"].astype(object).where(averaged["reason"].notna(), None)
    names = pd.DataFrame({"architecture": architecture.name, **labels}, averaged.index)
    return pd.concat([names, averaged.assign(reason=reasons)], axis="columns")


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


def signature_chart(scores: pd.DataFrame, colour: alt.Color) -> alt.TopLevelMixin:
    """Draw one network's signatures, a line for each value of the colour's column."""
    title = ", ".join(scores["architecture"].unique())
    lines = alt.Chart(scores, width=380, height=260, title=title).mark_line(
        point=alt.OverlayMarkDef(size=25), strokeWidth=1.2
    )
    x = alt.X("site:O", title="activation site", axis=alt.Axis(labelAngle=0))
    return styled(lines.encode(x, AFFINITY, colour))
