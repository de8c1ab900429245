"""Results of a linearisation: the state after each of its passes, and the network that is left."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch

from survey.linearising.network import LinearisedNetwork
from survey.linearising.settings import LinearisationSettings


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass over the training images came to."""

    #: Mean cross-entropy of its steps.
    loss: float
    #: Channels of all sites that are not linear after it.
    active: int


@dataclass(frozen=True, slots=True, eq=False)
class TrainingState:
    """All that a training needs to go on after one of its passes."""

    #: sha256 (hex) of the weights, images, labels and settings it began with.
    origin: str
    #: The passes that are done.
    passes: tuple[Pass, ...]
    #: The network's parameters and buffers, and the momentum of its parameters, by name.
    tensors: Mapping[str, torch.Tensor] = field(repr=False)


@dataclass(frozen=True, slots=True)
class LinearisedSite:
    """What is left of one ReLU."""

    #: The site's.
    name: str
    channels: int
    #: Channels that are not linear.
    active: int


@dataclass(frozen=True, slots=True)
class Linearised:
    """A network after a linearisation with training."""

    settings: LinearisationSettings
    #: Fraction of the held-out images that it recognises.
    top1: float
    #: The held-out images.
    heldout: int
    #: Its path lengths, linear channels not counted; see ``path_length``.
    path_length: float
    path_length_normalised: float
    #: Those of the network with every ReLU.
    full_path_length: float
    full_path_length_normalised: float
    #: Its ReLUs in execution order: the shape of the core network.
    sites: tuple[LinearisedSite, ...]
    #: Sites of other activations, which are left as they are and count on every path.
    others: tuple[str, ...]
    passes: tuple[Pass, ...]
    network: LinearisedNetwork = field(repr=False, compare=False)

    @property
    def active_fraction(self) -> float:
        """Share of all sites' channels that are not linear."""
        return sum(site.active for site in self.sites) / sum(site.channels for site in self.sites)
