"""What determines a linearisation, besides the network and the images."""

from __future__ import annotations

import math
from dataclasses import dataclass

from survey.errors import SettingsError

#: What float32, in which networks are trained, holds is below.
_MOST = 1e38


@dataclass(frozen=True, slots=True)
class Phase:
    """Passes in a row that are alike; the learning rate rises and falls once in them."""

    #: The number of its first pass.
    first: int
    passes: int
    #: Whether its passes have the penalty.
    penalised: bool


@dataclass(frozen=True, slots=True)
class LinearisationSettings:
    """How a network is trained while a penalty makes its channels linear.

    Raises
    ------
    SettingsError
        If a value is not allowed.
    """

    #: Weight of the penalty beside the cross-entropy, 0 or more. At 0 no channel becomes linear.
    omega: float = 0.01
    #: Of the order of the images, and of what the network itself draws.
    seed: int = 0
    #: Passes over the training images with the penalty, 1 or more.
    epochs: int = 20
    #: Passes without it, in which all slopes stay as they are, 0 or more.
    plain_epochs: int = 0
    #: Whether the passes with the penalty come before the plain ones, and not after them.
    penalty_first: bool = False
    #: Images in one step.
    images_per_step: int = 32
    #: The highest learning rate: it rises to it over 30 % of the steps and falls along a cosine, in
    #: the plain passes and again in the others.
    learning_rate: float = 0.1
    #: Nesterov momentum, below 1.
    momentum: float = 0.9
    #: Penalty on every parameter but the slopes.
    weight_decay: float = 5e-4

    def __post_init__(self) -> None:
        whole = {"seed": 0, "epochs": 1, "plain_epochs": 0, "images_per_step": 1}
        for name, least in whole.items():
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < least:
                raise SettingsError(f"{name} is {value!r}, must be a whole number from {least} on")
            if value >= (most := 1 << (63 if name == "seed" else 31)):
                raise SettingsError(f"{name} is {value}, must be below {most}")
        if not isinstance(self.penalty_first, bool):
            raise SettingsError(f"penalty_first is {self.penalty_first!r}, must be True or False")
        for name in ("omega", "learning_rate", "momentum", "weight_decay"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise SettingsError(f"{name} is {value!r}, must be a number")
            if not 0 <= value < _MOST:
                raise SettingsError(f"{name} is {value}, must be from 0 to below {_MOST:g}")
        if self.momentum >= 1:
            raise SettingsError(f"momentum is {self.momentum}, must be below 1")
        if not self.learning_rate:
            raise SettingsError("learning_rate is 0, must be above 0")

    @property
    def passes(self) -> int:
        """All passes over the training images."""
        return self.plain_epochs + self.epochs

    def phase(self, number: int) -> Phase:
        """Return the phase that a pass is in, passes counted from 0."""
        turn = self.epochs if self.penalty_first else self.plain_epochs
        if number < turn:
            return Phase(0, turn, self.penalty_first)
        return Phase(turn, self.passes - turn, not self.penalty_first)

    def learning_rate_at(self, step: float, steps: float) -> float:
        """Return the learning rate of one of the steps that a rise and a fall have."""
        share = (step + 1) / steps
        if share <= _RISING:
            return self.learning_rate * share / _RISING
        falling = (share - _RISING) / (1 - _RISING)
        return self.learning_rate * max(0.5 + 0.5 * math.cos(math.pi * falling), 1e-4)


#: The part of the steps over which the learning rate rises.
_RISING = 0.3
