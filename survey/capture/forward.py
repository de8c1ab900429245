"""One forward pass, with the pooled input and output of every activation call.

Modules are seen by forward hooks and functionals by a torch function mode, so that each
outermost call is met once, in execution order. The input is pooled before the activation runs,
since an in-place one overwrites it. The network computes exactly what it would compute
unwatched: nothing in it is called twice, re-laid out or replaced.

``interception`` sees every call, ``site_calls`` keeps those of activations and ``pooled_pair``
what is pooled of each. ``layout`` follows what a tensor's axes mean, ``lineage`` what it descends
from and ``expressions`` of which values it is an elementwise function; ``blocks`` numbers the
activation calls of a block once the pass is over.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from survey.capture.blocks import Blocks
from survey.capture.calls import Call
from survey.capture.follower import Follower
from survey.capture.interception import Interception
from survey.capture.layout import CONSTANT, input_layout, mark, unmark
from survey.capture.lineage import Descent, begin
from survey.capture.pooled_pair import PairPooling, PooledPair
from survey.capture.rounding import Noise, Rounding
from survey.capture.site_calls import SiteCalls
from survey.capture.unsupported import refuse_hidden, uncompiled
from survey.device import random_numbers_kept
from survey.errors import CaptureError
from survey.results import Site
from survey.settings import Pooling

#: How many times larger than rounding a change is that something else made.
OTHER = 100.0


class Capture:
    """Captures the activation calls of one model.

    Parameters
    ----------
    model : torch.nn.Module
        Any network in eval mode. It is not modified.
    pooling : {"mean", "pre", "sum", "flatten", "public_code"}
        How tensors become matrices; see ``MeasureSettings``.
    counted : bool
        Whether values near zero are counted; on a processor they are in any case.

    Raises
    ------
    CaptureError
        If it holds something that runs activations where they cannot be seen.
    """

    def __init__(
        self, model: nn.Module, pooling: Pooling = "mean", *, counted: bool = True
    ) -> None:
        self._model = model
        self._pooling = pooling
        self._counted = counted
        self._names = {module: name for name, module in model.named_modules()}
        refuse_hidden(self._names)
        self._blocks = Blocks(self._names)
        #: Whether a pass of few images gives what one of more gives but for rounding; None before
        #: it is known. A network that draws random numbers, or normalises by its batch, does not.
        self._reproducible: bool | None = None

    def forward(
        self, images: torch.Tensor, rounding: Rounding | None = None
    ) -> tuple[Any, list[PooledPair]]:
        """Run the model once and capture its activation calls.

        Parameters
        ----------
        images : torch.Tensor
            B images, as the model takes them.
        rounding : Rounding, optional
            Disturbs what every call computes.

        Returns
        -------
        output
            What the model returned: undisturbed, bit for bit what it returns unwatched.
        pairs : list of PooledPair
            One an activation call, in execution order.
        """
        return self._run(images, rounding)[:2]

    def calls(self, images: torch.Tensor) -> list[Call]:
        """Run the model once and list its elementwise non-linear calls.

        Parameters
        ----------
        images : torch.Tensor
            As for ``forward``; on the meta device nothing is computed.

        Returns
        -------
        list of Call
            In the order of their beginnings. A call inside an activation module is a part of it
            and not listed.
        """
        return self._run(images)[2].listed()

    def follow(self, images: torch.Tensor, follower: Follower) -> list[Site]:
        """Run the model once, let something else be followed too, and return its sites."""
        return [pair.site for pair in self._run(images, follower=follower)[1]]

    def _run(
        self,
        images: torch.Tensor,
        rounding: Rounding | None = None,
        follower: Follower | None = None,
    ) -> tuple[Any, list[PooledPair], SiteCalls]:
        descent = Descent()
        kind = self._pooling if follower is None else None
        pooling = PairPooling(images.shape[0], kind, counted=self._counted)
        sites = SiteCalls(pooling, descent, follower)
        interception = Interception(sites, descent, rounding, follower)
        with contextlib.ExitStack() as stack:
            stack.enter_context(_marked(images, self._model))
            if follower is not None:
                follower.begin(images)
            for module, name in self._names.items():
                enter, leave = interception.hooks(module, name)
                before = module.register_forward_pre_hook(enter, with_kwargs=True)
                stack.callback(before.remove)
                after = module.register_forward_hook(leave, with_kwargs=True, always_call=True)
                stack.callback(after.remove)
            stack.enter_context(interception)
            stack.enter_context(uncompiled())
            output = self._model(images)
            if follower is not None:
                with torch._C.DisableTorchFunction():
                    follower.end(output)
            return output, sites.pairs(output, self._blocks), sites

    def with_noise(self, images: torch.Tensor, pairs: list[PooledPair]) -> list[PooledPair]:
        """Measure the rounding noise of a pass, by a disturbed pass of its first images.

        It is compared with the pass itself or, where the network draws random numbers or normalises
        by its batch, with a pass of the same images that is not disturbed.

        Parameters
        ----------
        images : torch.Tensor
            The first k images of the pass.
        pairs : list of PooledPair
            Its pairs.

        Returns
        -------
        list of PooledPair
            The pairs with their noise.

        Raises
        ------
        CaptureError
            If fewer images make other calls.
        """
        disturbed = self._again(images, Rounding())
        if [pair.site.site_name for pair in disturbed] != [pair.site.site_name for pair in pairs]:
            raise CaptureError(
                f"the forward pass of {len(images)} images made {len(disturbed)} activation calls "
                f"and that of more made {len(pairs)}: its path depends on the images, or on their "
                "number"
            )
        noises = list(map(_noise, disturbed, pairs))
        if not self._reproducible:
            alone = self._again(images)
            moved = list(map(_noise, alone, pairs))
            if self._reproducible is None:
                undisturbed = map(_noise, disturbed, alone)
                self._reproducible = not any(map(_is_other, moved, undisturbed, pairs))
            if not self._reproducible:
                noises = list(map(_noise, disturbed, alone))
        return [replace(pair, noise=noise) for pair, noise in zip(pairs, noises, strict=True)]

    def _again(self, images: torch.Tensor, rounding: Rounding | None = None) -> list[PooledPair]:
        """Return the pairs of one more pass, which draws the same random numbers each time."""
        # Copied, since a network may change its input in place.
        with random_numbers_kept(images.device):
            return self.forward(images.clone(), rounding)[1]


def _noise(one: PooledPair, other: PooledPair) -> Noise | None:
    """Return the change of a pair's first images between two passes."""
    if one.x is None or one.y is None or other.x is None or other.y is None:
        return None
    return Noise(one.x - other.x[: len(one.x)], one.y - other.y[: len(one.y)])


def _is_other(moved: Noise | None, noise: Noise | None, pair: PooledPair) -> bool:
    """Return whether a pair of few images is not that of more, by far more than rounding."""
    if moved is None or noise is None or pair.x is None or pair.y is None:
        return False
    parts = ((moved.x, noise.x, pair.x), (moved.y, noise.y, pair.y))
    return any(
        _size(gap) > OTHER * max(_size(by), pair.resolution * _size(whole))
        for gap, by, whole in parts
    )


def _size(values: torch.Tensor) -> float:
    """Return the root of the mean square of values."""
    return float(values.double().square().mean().sqrt())


@contextlib.contextmanager
def _marked(images: torch.Tensor, model: nn.Module) -> Iterator[None]:
    """Mark the input and the tensors that modules hold during one forward pass."""
    held = [
        tensor
        for module in model.modules()
        for tensor in (*module.buffers(recurse=False), *vars(module).values())
        if isinstance(tensor, torch.Tensor)
    ]
    for tensor in held:
        unmark(tensor)
        mark(tensor, CONSTANT)
    mark(images, input_layout(images))
    begin(images)
    try:
        yield
    finally:
        for tensor in (*held, images):
            unmark(tensor)
