"""The bundled zoo: eight small networks trained on handwritten digits.

Owns where their weights and the record of their training lie. The architectures are
``small:digits_*`` in ``catalog.models.cifar``; ``python -m catalog.zoo.train`` makes the files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from catalog.models.cifar import BUNDLED
from survey.errors import CheckpointError, UnknownName

__all__ = ["FOLDER", "RESULTS", "bundled_checkpoint", "read_results", "weights_file"]

#: The zoo that comes with this package.
FOLDER = Path(__file__).parent

#: The file of a zoo's folder that has the record of its training.
RESULTS = "results.json"


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
        raise CheckpointError(
            f"the bundled weights {path} do not exist",
            hint="install the package again, or make the files with: python -m catalog.zoo.train",
        )
    return path


def weights_file(folder: Path, name: str) -> Path:
    """Return where below a zoo's folder a bundled network's weights lie."""
    if name not in BUNDLED:
        raise UnknownName("bundled network", name, BUNDLED)
    return folder / "weights" / f"{name}.safetensors"


def read_results(folder: Path) -> dict[str, dict[str, Any]]:
    """Return what was recorded of each network's training; nothing where there is no record."""
    path = folder / RESULTS
    return dict(json.loads(path.read_text(encoding="utf-8"))) if path.is_file() else {}
