"""Study of training seeds: signatures of one network, retrained (Figure 8, right)."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import altair as alt
import pandas as pd
import torch

from analysis.data.validation import require_columns
from analysis.studies.networks import (
    DATASET,
    NETWORK,
    bundled_network,
    images_of,
    signature,
    signature_chart,
)
from analysis.studies.seeded_inputs import LOG, require_whole
from catalog.zoo import read_results, weights_file
from catalog.zoo.train import Recipe, train_zoo

#: The paper's seeds.
SEEDS = tuple(range(1, 10))


def seed_scores(
    network: str = NETWORK,
    seeds: Sequence[int] = SEEDS,
    *,
    images_per_score: int = 512,
    epochs: int = Recipe().epochs,
) -> pd.DataFrame:
    """Retrain a bundled network from several seeds by its own recipe, and measure each.

    Parameters
    ----------
    network : str
        A bundled network.
    seeds : sequence of int
        Of the initial weights and of the order of images. Each is one training, as
        ``python -m catalog.zoo.train --seed`` does it.
    images_per_score : int
        Images in one score.
    epochs : int
        Passes over the training images; the bundled recipe's by default.

    Returns
    -------
    pandas.DataFrame
        ``architecture``, ``seed``, ``heldout_top1`` (accuracy in [0, 1]), ``site``,
        ``site_name``, ``activation``, ``images_per_score``, ``batches``, ``affinity`` in [0, 1]
        (mean over batches) or NaN, ``affinity_std``, ``reason``.

    Raises
    ------
    UnknownName
        If there is no such network.
    SettingsError
        If a parameter cannot be used.

    References
    ----------
    Bouniot et al. 2025, arXiv:2310.11439, Appendix E, Figure 8.
    """
    require_whole(0, seeds=seeds)
    require_whole(1, epochs=epochs)
    require_whole(2, images_per_score=images_per_score)
    architecture = bundled_network(network)
    images = images_of(DATASET, architecture.transform)
    signatures = []
    for number, seed in enumerate(seeds, start=1):
        with tempfile.TemporaryDirectory() as folder, _flushed_denormals():
            train_zoo([architecture.name], Path(folder), Recipe(seed=seed, epochs=epochs))
            accuracy = read_results(Path(folder))[architecture.name]["heldout_top1"]
            checkpoint = f"file:{weights_file(Path(folder), architecture.name)}"
            labels = {"seed": seed, "heldout_top1": accuracy}
            signatures.append(
                signature(architecture, checkpoint, images, images_per_score, **labels)
            )
        progress = (seed, number, len(seeds), accuracy)
        LOG.info("seed %d (%d of %d): held-out top-1 %.4f", *progress)
    return pd.concat(signatures, ignore_index=True)


@contextmanager
def _flushed_denormals() -> Iterator[None]:
    """Flush denormal numbers, as the bundled command does: some steps are ten times as fast."""
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def seed_chart(scores: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw one signature a seed.

    Parameters
    ----------
    scores : pandas.DataFrame
        From ``seed_scores``.
    """
    require_columns(scores, ("architecture", "site", "affinity", "seed"), "seed_scores()")
    return signature_chart(scores, alt.Color("seed:N", title="seed"))
