"""Linearisation with training: a penalty turns a network's ReLUs into linear channels.

The loss is the cross-entropy plus omega times the sum over all channels of |1 - alpha|^0.5. From a
trained network the penalty comes late; from initial weights it comes early. What is left when the
passes are over has an accuracy on other images and a path length in which linear channels do not
count.

Every pass over the images begins with random numbers of its own, so that a training which goes on
from the state after a pass ends bit for bit as one that was never interrupted, on the same machine
and with as many threads.

References
----------
Mehmeti-Göpel and Disselhoff 2023, arXiv:2211.17180.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional

from survey.accuracy import Hits, count_hits
from survey.copying import copied
from survey.device import device_of, random_numbers_kept
from survey.errors import InputError, SettingsError
from survey.eval_mode import evaluating
from survey.linearising.labelled_images import LabelledImages
from survey.linearising.network import LinearisedNetwork
from survey.linearising.results import Linearised, LinearisedSite, Pass, TrainingState
from survey.linearising.settings import LinearisationSettings
from survey.out_of_memory import is_of_machine
from survey.text import first_line

#: Images in one pass without gradients.
_CLASSIFIED = 256


class Training:
    """A linearisation, pass by pass.

    Parameters
    ----------
    model : torch.nn.Module
        Trained, or with initial weights. A copy of it is trained.
    images : LabelledImages
        To train on.
    settings : LinearisationSettings, optional
        How.
    resume : TrainingState, optional
        The state after a pass of the same training, which goes on from there.

    Raises
    ------
    CaptureError
        If the ReLUs of the model cannot be replaced, or its paths not followed.
    InputError
        If its result is no row of outputs for each image, with one for every label.
    SettingsError
        If the state is one of another training.
    """

    def __init__(
        self,
        model: nn.Module,
        images: LabelledImages,
        settings: LinearisationSettings | None = None,
        resume: TrainingState | None = None,
    ) -> None:
        self.settings = settings or LinearisationSettings()
        self._images = images
        device = device_of(model)
        if device.type == "meta":
            raise InputError("the network is on the meta device: it has no weights to train")
        _require_weights(model, self.settings)
        few = images.images[:2].to(device)
        self.network = LinearisedNetwork(copied(model, torch.clone), few)
        full = self.network.path_lengths()
        self.full_path_lengths = {name: _known(score.value) for name, score in full.items()}
        _require_outputs(self.network, few, images.labels, "largest")
        self._origin = _origin(self.network, images, self.settings)
        self._optimiser = _optimiser(self.network, self.settings)
        self._passes: list[Pass] = []
        if resume is not None:
            self._restore(resume)

    def passes(self, tick: Callable[[float], object] | None = None) -> Iterator[TrainingState]:
        """Yield the state after each of the passes that are left.

        Parameters
        ----------
        tick : callable, optional
            Called after each step with the part of all steps that is done, from 0 to 1. What it
            raises ends the training.

        Raises
        ------
        CaptureError
            If a step computes other ReLUs than the pass without training.
        InputError
            If a step cannot be computed, or the loss is not finite.
        """
        while len(self._passes) < self.settings.passes:
            self._passes.append(self._pass(len(self._passes), tick or (lambda _: None)))
            yield self.state()

    def state(self) -> TrainingState:
        """Return what the training needs to go on from here."""
        tensors = {f"network.{name}": value for name, value in _tensors(self.network).items()}
        for name, parameter in self.network.named_parameters():
            if (held := self._optimiser.state[parameter].get("momentum_buffer")) is not None:
                tensors[f"momentum.{name}"] = held
        kept = {name: value.detach().cpu().clone() for name, value in tensors.items()}
        return TrainingState(self._origin, tuple(self._passes), kept)

    def result(self, heldout: LabelledImages) -> Linearised:
        """Return what is left of the network after its passes.

        Raises
        ------
        InputError
            If no label of the held-out images is one of its outputs.
        """
        hits = _hits(self.network, heldout)
        if not hits.labelled:
            raise InputError("no label of the held-out images is one of the network's outputs")
        lengths = self.network.path_lengths()
        active = self.network.active()
        return Linearised(
            settings=self.settings,
            top1=hits.top1 / hits.labelled,
            heldout=hits.labelled,
            **{name: _known(score.value) for name, score in lengths.items()},
            **{f"full_{name}": value for name, value in self.full_path_lengths.items()},
            sites=tuple(
                LinearisedSite(name, len(each), int(each.sum())) for name, each in active.items()
            ),
            others=self.network.relus.others,
            passes=tuple(self._passes),
            network=self.network.eval(),
        )

    def _restore(self, state: TrainingState) -> None:
        if state.origin != self._origin:
            raise SettingsError(
                "the state to resume from is of a training with another network, other images or"
                " other settings",
                hint="leave it out to train from the start",
            )
        own = _tensors(self.network)
        for name, value in own.items():
            value.copy_(state.tensors[f"network.{name}"])
        for name, parameter in self.network.named_parameters():
            if (held := state.tensors.get(f"momentum.{name}")) is not None:
                momentum = held.to(parameter.device, copy=True)
                self._optimiser.state[parameter]["momentum_buffer"] = momentum
        self._passes = list(state.passes)

    def _pass(self, number: int, tick: Callable[[float], object]) -> Pass:
        """Train on every image once."""
        settings, device = self.settings, self.network.slopes.device
        phase = settings.phase(number)
        self.network.slopes.requires_grad_(phase.penalised)
        if number == phase.first:
            # Momentum is of one loss, and the other phase has another.
            self._optimiser.state.clear()
        omega = settings.omega if phase.penalised else 0.0
        size = min(settings.images_per_step, len(self._images))
        # A last smaller step would move the running means of batch normalisation at random.
        steps = len(self._images) // size
        losses = []
        with random_numbers_kept(device), torch.enable_grad():
            torch.manual_seed(_seed(settings.seed, number))
            order = torch.randperm(len(self._images))[: steps * size]
            self.network.train()
            for step, chosen in enumerate(order.split(size)):
                reached = (number - phase.first) * steps + step
                rate = settings.learning_rate_at(reached, phase.passes * steps)
                try:
                    losses.append(self._step(chosen.to(self._images.images.device), rate, omega))
                except (RuntimeError, TypeError, ValueError, IndexError) as error:
                    if is_of_machine(error):
                        raise
                    what = f"the network cannot be trained: {first_line(error)}"
                    raise InputError(what) from error
                tick((number * steps + step + 1) / (settings.passes * steps))
        loss = torch.stack(losses).mean().item()
        if not math.isfinite(loss) or not self.network.slopes.isfinite().all():
            raise InputError(
                f"the loss is not finite in pass {number + 1} of {settings.passes}",
                hint=f"try a learning rate below {settings.learning_rate:g}",
            )
        return Pass(loss, int((~self.network.linear).sum()))

    def _step(self, chosen: torch.Tensor, rate: float, omega: float) -> torch.Tensor:
        """Take one step and return its cross-entropy."""
        network, device = self.network, self.network.slopes.device
        data = self._images
        images, labels = data.images[chosen].to(device), data.labels[chosen].to(device)
        loss = cross_entropy = functional.cross_entropy(network(images), labels.long())
        if omega:
            loss = loss + omega * network.penalty()
        for group in self._optimiser.param_groups:
            group["lr"] = rate
        self._optimiser.zero_grad()
        loss.backward()
        before = network.slopes.detach().clone()
        self._optimiser.step()
        if omega:
            network.freeze(before)
        return cross_entropy.detach()


@torch.inference_mode(mode=False)
def linearise(
    model: nn.Module,
    images: LabelledImages,
    heldout: LabelledImages,
    settings: LinearisationSettings | None = None,
    *,
    resume: TrainingState | None = None,
    keep: Callable[[TrainingState], object] | None = None,
    tick: Callable[[float], object] | None = None,
) -> Linearised:
    """Train a network while a penalty makes its channels linear.

    Parameters
    ----------
    model : torch.nn.Module
        Trained (late linearisation) or with initial weights (early). It is not modified.
    images, heldout : LabelledImages
        To train on, and to count the accuracy on.
    settings : LinearisationSettings, optional
        How.
    resume : TrainingState, optional
        The state after a pass of the same training, which goes on from there to the same result.
    keep : callable, optional
        Called with the state after each pass.
    tick : callable, optional
        Called after each step with the part of all steps that is done, from 0 to 1. What it raises
        ends the training.

    Returns
    -------
    Linearised
        Accuracy, path lengths and the channels that are left, with the network.

    Raises
    ------
    CaptureError
        If the ReLUs of the model cannot be replaced, or its paths not followed.
    InputError
        If the images do not suit the network, or the loss is not finite.
    SettingsError
        If the state is one of another training.

    References
    ----------
    Mehmeti-Göpel and Disselhoff 2023, arXiv:2211.17180.
    """
    training = Training(model, images, settings, resume)
    few = heldout.images[:2].to(training.network.slopes.device)
    _require_outputs(training.network, few, heldout.labels, "least")
    for state in training.passes(tick):
        if keep is not None:
            keep(state)
    return training.result(heldout)


def _known(value: float | None) -> float:
    # The network was refused in the beginning if it had none.
    if value is None:
        raise InputError("the network's path length is not known any more")
    return value


def _optimiser(network: LinearisedNetwork, settings: LinearisationSettings) -> torch.optim.SGD:
    # A decay of the slopes would draw them back to 0.
    weights = list(network.model.parameters())
    groups: list[dict[str, Any]] = [{"params": [network.slopes], "weight_decay": 0.0}]
    if weights:
        groups.append({"params": weights, "weight_decay": settings.weight_decay})
    return torch.optim.SGD(
        groups,
        lr=settings.learning_rate,
        momentum=settings.momentum,
        nesterov=settings.momentum > 0,
    )


def _tensors(network: nn.Module) -> dict[str, torch.Tensor]:
    """Return a network's parameters and buffers by name, such as share memory once."""
    return {
        name: tensor.detach()
        for name, tensor in (*network.named_parameters(), *network.named_buffers())
    }


def _seed(seed: int, number: int) -> int:
    digest = hashlib.sha256(f"{seed}/{number}".encode()).digest()
    return int.from_bytes(digest[:8]) >> 1


def _origin(
    network: LinearisedNetwork, images: LabelledImages, settings: LinearisationSettings
) -> str:
    digest = hashlib.sha256(repr(sorted(asdict(settings).items())).encode())
    tensors = {**_tensors(network), "images": images.images, "labels": images.labels}
    for name, tensor in tensors.items():
        digest.update(f"{name} {tuple(tensor.shape)} {tensor.dtype}".encode())
        plain = tensor.detach().cpu().contiguous().flatten()
        digest.update(plain.view(torch.uint8).numpy().data)
    return digest.hexdigest()


def _require_weights(model: nn.Module, settings: LinearisationSettings) -> None:
    """Refuse passes without a penalty where nothing is there to be trained."""
    if settings.plain_epochs and not any(each.requires_grad for each in model.parameters()):
        raise InputError(
            f"no weight of the network is trainable, and plain_epochs is {settings.plain_epochs}",
            hint="set requires_grad of its weights, or plain_epochs to 0",
        )


@torch.no_grad()
def _require_outputs(
    network: LinearisedNetwork,
    images: torch.Tensor,
    labels: torch.Tensor,
    which: Literal["largest", "least"],
) -> None:
    """Refuse a network that has no output for the largest, or for the least, of the labels."""
    try:
        with evaluating(network):
            # Copied, since a network may change its input in place.
            output = network(images.clone())
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        if is_of_machine(error):
            raise
        raise InputError(
            f"the network does not take images of shape {tuple(images.shape[1:])}:"
            f" {first_line(error)}"
        ) from error
    if not isinstance(output, torch.Tensor) or output.ndim != 2 or len(output) != len(images):
        shape = tuple(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise InputError(f"the network returns {shape}, must be a row of outputs for each image")
    label = int(labels.max() if which == "largest" else labels.min())
    if label >= output.shape[1]:
        raise InputError(
            f"the {which} label is {label}, and the network has {output.shape[1]} outputs"
        )


def _hits(network: LinearisedNetwork, heldout: LabelledImages) -> Hits:
    device = network.slopes.device
    hits = Hits(0, 0, 0)
    with evaluating(network), torch.no_grad():
        parts = heldout.images.split(_CLASSIFIED), heldout.labels.split(_CLASSIFIED)
        for images, labels in zip(*parts, strict=True):
            hits += count_hits(network(images.to(device, copy=True)), labels)
    return hits
