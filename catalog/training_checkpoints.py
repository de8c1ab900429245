"""Checkpoints of a linearisation: one safetensors file with what is no tensor in its header."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from catalog.files import whole_file
from survey.errors import CheckpointError, StoreError
from survey.text import first_line

if TYPE_CHECKING:
    from survey.linearising.results import TrainingState

#: The entry of the header that has the rest, as JSON.
_HEADER = "linearisation"


def save_training(path: Path, state: TrainingState) -> None:
    """Write a training's state; a killed process, or a power cut, leaves it or the one before.

    Parameters
    ----------
    path : pathlib.Path
        The file; its folder is made. One process at a time may write it.
    state : TrainingState
        After a pass.

    Raises
    ------
    StoreError
        If it cannot be written.
    """
    from safetensors.torch import save_file

    header = json.dumps({"origin": state.origin, "passes": [asdict(each) for each in state.passes]})
    tensors = {name: tensor.contiguous() for name, tensor in state.tensors.items()}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path, lasting=True) as partial:
            save_file(tensors, partial, {_HEADER: header})
    # The library has an error of its own for a full disk.
    except Exception as error:
        raise StoreError(
            f"the training's state cannot be written to {path}: {first_line(error)}",
            hint="free some disk space and run the same command again; it goes on from there",
        ) from error


def load_training(path: Path) -> TrainingState | None:
    """Read a training's state; None where there is no such file.

    Raises
    ------
    CheckpointError
        If the file is damaged, or is none of a training.
    """
    from safetensors import safe_open

    from survey.linearising.results import Pass, TrainingState

    if not path.exists():
        return None
    try:
        with safe_open(path, framework="pt") as file:
            header = json.loads((file.metadata() or {})[_HEADER])
            # keys() of the library is no mapping's: the file itself cannot be iterated.
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        passes = tuple(Pass(float(each["loss"]), int(each["active"])) for each in header["passes"])
        return TrainingState(str(header["origin"]), passes, tensors)
    except Exception as error:
        raise CheckpointError(
            f"{path} is no state of a training: {first_line(error)}",
            hint="remove it to train from the start",
        ) from error
