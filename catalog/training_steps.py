"""Steps of training in the names of files of weights, such as ``epoch_030.pth``."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

#: Beginnings of references to files, whose names may hold a step of training.
_FILES = ("file:", "hf:")

_NUMBER = r"(\d{1,15}k?)"
# Behind a rate, e-4 is ten to the power of -4.
_POWER = r"(?:(?<=lr[ _=-])|(?<=wd[ _=-])|(?<=eps[ _=-])|(?<=decay[ _=-])|(?<=rate[ _=-]))e-\d"
_EPOCH = rf"(?!{_POWER})(?:epochs?[ _=-]?|ep?[ _=-]?(?=\d{{1,5}}(?!\d))){_NUMBER}"
_STEP = rf"(?:(?:global_?)?(?:steps?|iter(?:ation)?s?)[ _=-]?|checkpoint-){_NUMBER}"


def _alone(pattern: str) -> re.Pattern[str]:
    # Not the letters and digits of a hash: a name stands alone, and a short one has few digits. The
    # number is whole: of 1.5 it is none.
    return re.compile(rf"(?<![a-z0-9])(?:{pattern})(?![a-z0-9]|\.\d)", re.IGNORECASE)


_UNITS = {"epoch": _alone(_EPOCH), "step": _alone(_STEP)}

#: An epoch, with the step behind it, or a step.
_EITHER = _alone(rf"{_EPOCH}(?:[_-]{_STEP})?|{_STEP}")


def training_step(reference: str) -> dict[str, int]:
    """Return the epoch and the step of training that the name of a file of weights holds.

    Parameters
    ----------
    reference : str
        A checkpoint, such as ``file:runs/epoch_030.pth``. Where the file's name holds neither, its
        folder's may, such as that of ``checkpoint-500/model.safetensors``.

    Returns
    -------
    dict of str to int
        ``epoch`` or ``step``, or both, or neither.
    """
    if not reference.startswith(_FILES):
        return {}
    path = PurePosixPath(reference.partition(":")[2].replace("\\", "/"))
    return next(filter(None, map(_steps_in, (path.name, path.parent.name))), {})


def spelled_out(name: str) -> str:
    """Return a file's name with the epoch or step of training in it as ``epoch 30``."""
    return _EITHER.sub(_spelled, name)


def _spelled(match: re.Match[str]) -> str:
    epoch, _, step = match.groups()
    return f"epoch {_whole(epoch)}" if epoch else f"step {_whole(step)}"


def _steps_in(name: str) -> dict[str, int]:
    numbers = {unit: pattern.findall(name) for unit, pattern in _UNITS.items()}
    # The last: `step_size_8-step_900`.
    return {unit: _whole(each[-1]) for unit, each in numbers.items() if each}


def _whole(number: str) -> int:
    """Return the number that a text such as ``030`` or ``10k`` is."""
    digits = number.lower().removesuffix("k")
    return int(digits) * (1 if digits == number else 1000)
