"""Study of training: signatures at initial and at trained weights (Figure 9)."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import pandas as pd

from analysis.data.validation import require_columns
from analysis.figures.theme import AFFINITY, COLOURS, styled
from analysis.studies.networks import DATASET, bundled_network, images_of, signature
from analysis.studies.seeded_inputs import LOG, require_some, require_whole
from catalog.models.cifar import BUNDLED


def training_scores(
    networks: Sequence[str] = BUNDLED,
    *,
    seed: int = 0,
    images_per_score: int = 512,
) -> pd.DataFrame:
    """Measure bundled networks before and after their training.

    Parameters
    ----------
    networks : sequence of str
        Bundled networks; all eight by default.
    seed : int
        Of the initial weights.
    images_per_score : int
        Images in one score.

    Returns
    -------
    pandas.DataFrame
        ``architecture``, ``checkpoint`` (``init:SEED`` or ``bundled``), ``trained``, ``site``,
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
    Bouniot et al. 2025, arXiv:2310.11439, Appendix E, Figure 9.
    """
    require_some(networks=networks)
    require_whole(0, seed=seed)
    require_whole(2, images_per_score=images_per_score)
    signatures = []
    for architecture in [bundled_network(name) for name in networks]:
        images = images_of(DATASET, architecture.transform)
        for reference in (f"init:{seed}", "bundled"):
            labels = {"checkpoint": reference, "trained": reference == "bundled"}
            signatures.append(
                signature(architecture, reference, images, images_per_score, **labels)
            )
        LOG.info(architecture.name)
    return pd.concat(signatures, ignore_index=True)


def training_chart(scores: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw both signatures of each network, one panel a network.

    Parameters
    ----------
    scores : pandas.DataFrame
        From ``training_scores``.
    """
    require_columns(scores, ("architecture", "checkpoint", "site", "affinity"), "training_scores()")
    x = alt.X("site:Q", title="activation site", axis=alt.Axis(tickMinStep=1))
    colour = alt.Color("checkpoint:N", title=None, scale=COLOURS)
    lines = alt.Chart(scores, width=190, height=150).mark_line(
        point=alt.OverlayMarkDef(size=20), strokeWidth=1.2
    )
    panel = alt.Facet("architecture:N", title=None)
    faceted = lines.encode(x, AFFINITY, colour).facet(facet=panel, columns=4)
    return styled(faceted.resolve_scale(x="independent"))
