"""The bundled zoo: eight small networks trained on handwritten digits.

Owns where their weights lie and what accuracy they were published with. The architectures are
``small:digits_*`` in ``catalog.models.small``; ``python -m catalog.zoo.train`` makes the files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from catalog.models.small import BUNDLED
from survey.errors import CheckpointError, UnknownName

__all__ = ["FOLDER", "bundled_checkpoint", "published_accuracy", "weights_file"]

#: Where the weights and the record of their training lie.
FOLDER = Path(__file__).parent

_HINT = "install the package again, or make the files with: python -m catalog.zoo.train"


def bundled_checkpoint(name: str) -> Path:
    """Return the file of a bundled network's trained weights.

    Parameters
    ----------
    name : str
        The architecture's name without its source, such as ``digits_resnet14``.

    Raises
    ------
    UnknownName
        If no bundled network is named so.
    CheckpointError
        If the installation lacks the file.
    """
    path = weights_file(FOLDER, name)
    if not path.is_file():
        raise CheckpointError(f"the bundled weights {path} do not exist", hint=_HINT)
    return path


def published_accuracy(name: str) -> float:
    """Return a bundled network's top-1 accuracy on the held-out digits, a fraction in [0, 1].

    Raises
    ------
    UnknownName
        If no bundled network is named so.
    CheckpointError
        If the installation lacks the record, or the network is not in it.
    """
    _require_bundled(name)
    results = read_results(FOLDER)
    if name not in results:
        raise CheckpointError(f"{results_file(FOLDER)} does not exist or lacks {name}", hint=_HINT)
    return float(results[name]["heldout_top1"])


def weights_file(folder: Path, name: str) -> Path:
    """Return where below a zoo's folder a bundled network's weights lie."""
    _require_bundled(name)
    return folder / "weights" / f"{name}.safetensors"


def results_file(folder: Path) -> Path:
    """Return where in a zoo's folder the record of its training lies."""
    return folder / "results.json"


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what was recorded of each network's training; nothing where there is no record."""
    path = results_file(folder)
    if not path.is_file():
        return {}
    return dict(json.loads(path.read_text(encoding="utf-8")))


def _require_bundled(name: str) -> None:
    if name not in BUNDLED:
        raise UnknownName("bundled network", name, BUNDLED)
