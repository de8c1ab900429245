"""The bundled networks, whose most affine channels are replaced without training."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from catalog.checkpoint_references import resolve
from catalog.model_loading import load_model
from catalog.models.cifar import BUNDLED, CifarSource
from catalog.zoo.train import labelled_images
from survey import measure_network


def untrained_rows() -> Iterator[dict[str, Any]]:
    """Yield a row for each point of each network's curve, on the held-out digits."""
    for name in BUNDLED:
        architecture = CifarSource().get(name)
        model = load_model(architecture, resolve("bundled", architecture, Path())).model
        batch = labelled_images("heldout", architecture.transform)
        scores = measure_network(model, architecture.transform.shape, "linearisation", [batch])
        score = scores["linearised_path_length"]
        percentages = score.details["percentages"]
        assert isinstance(percentages, list)
        for percentage, point in zip(percentages, score.curve, strict=True):
            yield {
                "experiment": "untrained",
                "name": name,
                "percentage": percentage,
                "top1": point.y,
                "path_length_normalised": point.x,
                "summary": score.value,
                "standard_error": score.standard_error,
            }
