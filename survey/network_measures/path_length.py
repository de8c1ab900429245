"""The average path length: activations on a path from a network's input to its output.

It is a number of the graph alone, whatever the weights and the images. A unit is one channel of one
activation call, a path goes through one channel of each layer, and a sum or a concatenation is a
choice between the ways on. A path chosen among all alike has ``path_length`` activations; in a
residual network the long ones are by far the most, so that it is nearly the number of its
activations. A random walk, which takes each way on with equal chance, has
``path_length_normalised``.

The paper leaves two things undefined. A value and its gate are merged here as a sum is, and of
attention the values are followed; a score says where a network has them.

References
----------
Mehmeti-Göpel and Disselhoff 2023, "Nonlinear Advantage: Trained Networks Might Not Be As Complex as
You Think", arXiv:2211.17180, Figure 1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from survey.network_measures.base import NetworkQuantity, NetworkScore, StructuralMeasure

if TYPE_CHECKING:
    import torch
    from torch import nn

    from survey.network_measures.paths.counts import Paths

#: How what the paper leaves undefined is counted.
CONVENTIONS = {
    "gate": "a value and its gate are merged as the terms of a sum",
    "attention": "the values are followed, averaged over the tokens",
}


def path_length(
    model: nn.Module, images: torch.Tensor, active: Mapping[str, torch.Tensor] | None = None
) -> dict[str, NetworkScore]:
    """Return the average path length of a network, over all paths alike and of a random walk.

    Parameters
    ----------
    model : torch.nn.Module
        In eval mode, on any device.
    images : torch.Tensor
        Two or more images, as the model takes them; on the meta device nothing is computed.
    active : mapping of str to torch.Tensor, optional
        For sites by name, 1 x c: 1 for a channel that counts as an activation, 0 for one that
        counts as linear. All other channels count.

    Returns
    -------
    dict of str to NetworkScore
        ``path_length`` and ``path_length_normalised``, each with the logarithm to base 10 of the
        number of paths to an output, and the conventions that it rests on; or with the reason for
        which the paths cannot be followed.
    """
    import torch

    from survey.capture.forward import Capture
    from survey.errors import CaptureError
    from survey.network_measures.paths.following import PathFollowing
    from survey.network_measures.paths.trace import Unfollowed

    following = PathFollowing(active)
    try:
        # Tensors of the inference mode do not count how often their memory changed: a clone does.
        with torch.inference_mode(mode=False), torch.no_grad():
            Capture(model).follow(images.clone(), following)
    except (CaptureError, Unfollowed) as error:
        return {quantity.name: NetworkScore(None, str(error)) for quantity in _QUANTITIES}
    paths = following.output
    details = _details(paths, following.conventions)
    return {
        "path_length": NetworkScore(paths.mean.item(), details=details),
        "path_length_normalised": NetworkScore(paths.walk.item(), details=details),
    }


def _details(paths: Paths, conventions: set[str]) -> dict[str, object]:
    details: dict[str, object] = {"log10_paths": paths.log_count.item() / math.log(10)}
    if conventions:
        details["conventions"] = {name: CONVENTIONS[name] for name in sorted(conventions)}
    return details


_QUANTITIES = (
    NetworkQuantity(
        name="path_length",
        sentence="Mean number of activations on a path from input to output, all paths alike.",
        formula="sum over paths of the activations on them / number of paths",
        unit="activations",
        low=0.0,
        high=math.inf,
        source="arXiv:2211.17180, Figure 1",
    ),
    NetworkQuantity(
        name="path_length_normalised",
        sentence="Mean number of activations on a random walk that takes each way on alike.",
        formula="E[activations on a walk from an output, one of k terms or channels each 1 / k]",
        unit="activations",
        low=0.0,
        high=math.inf,
        source="arXiv:2211.17180, Figure 1",
    ),
)

MEASURE = StructuralMeasure(
    name="path_length", version=2, quantities=_QUANTITIES, compute=path_length
)
