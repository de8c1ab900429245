"""Top-1 and top-5 hits, counted on the outputs of the measured forward pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch


@dataclass(frozen=True, slots=True)
class Hits:
    """Counts of labelled images and of their top-1 and top-5 hits."""

    #: Images whose label is one of the model's outputs.
    labelled: int
    #: Those whose label is the largest output.
    top1: int
    #: Those whose label is among the five largest.
    top5: int

    def __add__(self, other: Hits) -> Hits:
        return Hits(self.labelled + other.labelled, self.top1 + other.top1, self.top5 + other.top5)


def logits_of(output: object) -> torch.Tensor | None:
    """Return the logits in what a network returns, B x K; None where there are none.

    Of a mapping they are its ``logits``.
    """
    if isinstance(output, Mapping):
        output = output.get("logits")
    return output if isinstance(output, torch.Tensor) and output.ndim == 2 else None


def count_hits(output: object, labels: torch.Tensor | None) -> Hits:
    """Count top-1 and top-5 hits.

    Parameters
    ----------
    output : object
        The model's result.
    labels : torch.Tensor or None
        B class indices; those outside 0..K-1 count as unlabelled.

    Returns
    -------
    Hits
        All zero where there is nothing to count. An image with a non-finite logit is a miss.
    """
    logits = logits_of(output)
    if labels is None or logits is None:
        return Hits(0, 0, 0)
    labels = labels.to(logits.device)
    known = (labels >= 0) & (labels < logits.shape[1])
    best = logits.topk(min(5, logits.shape[1]), dim=1).indices
    right = (best == labels[:, None]) & (known & logits.isfinite().all(dim=1))[:, None]
    return Hits(int(known.sum()), int(right[:, 0].sum()), int(right.any(dim=1).sum()))
