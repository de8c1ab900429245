"""Study of batch sizes: signatures against the number of images in a score (Figure 8, left)."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

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
from survey import SettingsError

#: The paper's batch sizes.
BATCH_SIZES = tuple(range(128, 1025, 128))


def batch_size_scores(
    network: str = NETWORK,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    *,
    dataset: str = DATASET,
) -> pd.DataFrame:
    """Measure a bundled network's signature with several numbers of images in one score.

    Parameters
    ----------
    network : str
        A bundled network, with its trained weights.
    batch_sizes : sequence of int
        Numbers of images in one score.
    dataset : str
        As in ``survey run --dataset``.

    Returns
    -------
    pandas.DataFrame
        ``architecture``, ``dataset``, ``site``, ``site_name``, ``activation``,
        ``images_per_score``, ``batches`` (as many whole ones as the dataset holds), ``affinity``
        in [0, 1] (mean over them) or NaN, ``affinity_std`` (over them; NaN for one), ``reason``.

    Raises
    ------
    UnknownName
        If there is no such network or dataset.
    SettingsError
        If a batch size is below 2, or the dataset is smaller than it.

    References
    ----------
    Bouniot et al. 2025, arXiv:2310.11439, Appendix E, Figure 8.
    """
    require_whole(2, batch_sizes=batch_sizes)
    architecture = bundled_network(network)
    images = images_of(dataset, architecture.transform)
    if max(batch_sizes) > len(images):
        raise SettingsError(
            f"{dataset} holds {len(images)} images, a batch of {max(batch_sizes)} does not fit",
            hint=f"name batch sizes of at most {len(images)}",
        )
    signatures = []
    for size in batch_sizes:
        signatures.append(signature(architecture, "bundled", images, size, dataset=dataset))
        LOG.info("%d images a score", size)
    return pd.concat(signatures, ignore_index=True)


def batch_size_chart(scores: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw one signature a batch size.

    Parameters
    ----------
    scores : pandas.DataFrame
        From ``batch_size_scores``.
    """
    require_columns(
        scores, ("architecture", "site", "affinity", "images_per_score"), "batch_size_scores()"
    )
    scheme = alt.Scale(scheme="viridis")
    return signature_chart(
        scores, alt.Color("images_per_score:O", title="images a score", scale=scheme)
    )
