"""Study of random perceptrons: scores beside the complexity of the networks' functions.

The setting of Teney et al. 2024: untrained networks from the plane to a number, whose weights
grow; the question is whether the score sees what the function's spectrum sees.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import altair as alt
import numpy as np
import pandas as pd
import scipy.fft
import torch

from analysis.data.validation import require_columns
from analysis.figures.theme import AFFINITY, styled
from analysis.studies.elementwise import Elementwise
from analysis.studies.seeded_inputs import (
    LOG,
    activation_functions,
    require_positive,
    require_whole,
    score,
    seeded,
    uniform,
)

#: Activations studied by default: the notebook's two, and one in between.
MLP_ACTIVATIONS = ("relu", "gelu", "tanh")

#: Weights are uniform on (-s, s) with s = scale / sqrt(inputs of the layer); 1 is torch's own
#: initialisation of a linear layer.
SCALES = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 10.0)

#: Units of the layers: two coordinates, three hidden layers, a number.
WIDTHS = (2, 40, 40, 40, 1)


def mlp_scores(
    activations: Sequence[str] = MLP_ACTIVATIONS,
    scales: Sequence[float] = SCALES,
    *,
    seeds: int = 5,
    side: int = 32,
    seed: int = 0,
) -> pd.DataFrame:
    """Score random perceptrons 2-40-40-40-1 on a grid over [-1, 1] x [-1, 1].

    Parameters
    ----------
    activations : sequence of str
        Names in ``torch.nn.functional``.
    scales : sequence of float
        Weights and biases of a layer with m inputs are uniform on (-scale / sqrt(m),
        scale / sqrt(m)).
    seeds : int
        Networks for each activation and scale. Network k has the same weights, up to the scale,
        under every activation and scale.
    side : int
        Points of the grid along each axis.
    seed : int
        Of the weights.

    Returns
    -------
    pandas.DataFrame
        ``activation``, ``scale``, ``network`` (counting from 0), ``affinity`` (mean over the
        hidden activations, in [0, 1] or NaN), ``first``, ``second``, ``third`` (of each hidden
        layer), ``reason`` where one is NaN, ``complexity`` (see ``mean_frequency``).

    Raises
    ------
    UnknownName
        If torch has no such activation.
    SettingsError
        If a parameter cannot be used.

    References
    ----------
    Teney et al. 2024, "Neural Redshift: Random Networks are not Random Functions",
    arXiv:2403.02241.
    """
    require_positive(scales=scales)
    require_whole(1, seeds=seeds)
    require_whole(3, side=side)
    functions = activation_functions(activations)
    axis = torch.linspace(-1.0, 1.0, side, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    generator = seeded(seed)
    networks = [_layers(generator) for _ in range(seeds)]
    rows: list[dict[str, object]] = []
    for name, function in functions.items():
        for scale in scales:
            for number, layers in enumerate(networks):
                labels = {"activation": name, "scale": scale, "network": number}
                rows.append({**labels, **_row(layers, function, scale, grid, side)})
            LOG.info("%s, scale %g", name, scale)
    return pd.DataFrame(rows)


def _layers(generator: torch.Generator) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Draw weights and biases on (-1, 1) over the root of the number of inputs."""
    drawn = []
    for m, units in itertools.pairwise(WIDTHS):
        bound = 1.0 / math.sqrt(m)
        weights = uniform(generator, m, units, low=-bound, high=bound)
        drawn.append((weights, uniform(generator, units, low=-bound, high=bound)))
    return drawn


def _row(
    layers: list[tuple[torch.Tensor, torch.Tensor]],
    function: Elementwise,
    scale: float,
    grid: torch.Tensor,
    side: int,
) -> dict[str, object]:
    values, scores = grid, []
    for weights, biases in layers[:-1]:
        before = values @ (weights * scale) + biases * scale
        values = function(before)
        scores.append(score(before, values))
    weights, biases = layers[-1]
    output = (values @ (weights * scale) + biases * scale).reshape(side, side)
    affinities = [one["affinity"] for one in scores]
    reasons = [one["reason"] for one in scores if one["reason"] is not None]
    return {
        "affinity": float(np.mean(affinities)),
        **dict(zip(("first", "second", "third"), affinities, strict=True)),
        "reason": reasons[0] if reasons else None,
        "complexity": mean_frequency(output.numpy()),
    }


def mean_frequency(values: np.ndarray[tuple[int, ...], np.dtype[np.float64]]) -> float:
    """Return the mean frequency of a function on a grid, weighted by amplitude.

    With F the discrete cosine transform of the values less their mean, and f = |(k1, k2)| / 2 in
    cycles over the grid's width, it is sum |F| f / sum |F|. The Fourier transform would count the
    jump between opposite edges, which for smooth functions is most of what it sees.

    Parameters
    ----------
    values : numpy.ndarray
        side x side.

    Returns
    -------
    float
        In cycles over the grid's width; NaN for a constant function.

    References
    ----------
    After Teney et al. 2024, arXiv:2403.02241.
    """
    amplitudes = np.abs(scipy.fft.dctn(values - values.mean(), norm="ortho"))
    total = float(amplitudes.sum())
    if total <= 1e-12 * float(np.abs(values).sum()):
        return math.nan
    cycles = [np.arange(size) / 2 for size in values.shape]
    frequency = np.hypot(cycles[0][:, None], cycles[1][None, :])
    return float((amplitudes * frequency).sum() / total)


def mlp_summary(scores: pd.DataFrame) -> pd.DataFrame:
    """Return means over networks, one row an activation and scale.

    Parameters
    ----------
    scores : pandas.DataFrame
        From ``mlp_scores``.

    Returns
    -------
    pandas.DataFrame
        ``activation``, ``scale``, ``affinity``, ``affinity_std``, ``complexity``,
        ``complexity_std``, ``networks``.
    """
    require_columns(scores, ("activation", "scale", "affinity", "complexity"), "mlp_scores()")
    return scores.groupby(["activation", "scale"], as_index=False, sort=False).agg(
        affinity=("affinity", "mean"),
        affinity_std=("affinity", "std"),
        complexity=("complexity", "mean"),
        complexity_std=("complexity", "std"),
        networks=("affinity", "count"),
    )


def mlp_chart(scores: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw mean score and mean frequency over the scale, one line an activation.

    Parameters
    ----------
    scores : pandas.DataFrame
        From ``mlp_scores``.
    """
    lines = alt.Chart(mlp_summary(scores), width=280, height=230).mark_line(
        point=True, strokeWidth=1.5
    )
    x = alt.X("scale:Q", title="scale of the weights", scale=alt.Scale(type="log"))
    base = lines.encode(x, alt.Color("activation:N", title=None))
    complexity = alt.Y("complexity:Q", title="mean frequency (cycles)")
    return styled(alt.hconcat(base.encode(y=AFFINITY), base.encode(y=complexity)))
