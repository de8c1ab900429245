"""Benchmark of measuring beside the forward pass, on ResNet-50's 49 sites.

Three things are timed in turn in one process, and their ratio to the bare forward pass printed:
the forward pass with every input and output pooled, and the whole measurement with its scores.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torchvision.models import resnet50

from survey import MeasureSettings, measure
from survey.capture.forward import Capture

IMAGES, MICRO_BATCH, ROUNDS = 128, 32, 3


def main() -> None:
    """Time the three in turn and print ratios."""
    torch.manual_seed(0)
    model = resnet50(weights=None).eval()
    batches = torch.randn(IMAGES, 3, 224, 224).split(MICRO_BATCH)
    settings = MeasureSettings(images_per_score=IMAGES, micro_batch=MICRO_BATCH)

    def bare() -> None:
        with torch.inference_mode():
            for batch in batches:
                model(batch)

    def captured() -> None:
        capture = Capture(model)
        with torch.inference_mode():
            for batch in batches:
                capture.forward(batch)

    def measured() -> None:
        assert len(list(measure(model, batches, settings))) == 49

    times: dict[str, list[float]] = {"bare": [], "captured": [], "measured": []}
    kinds: list[tuple[str, Callable[[], None]]] = [
        ("bare", bare), ("captured", captured), ("measured", measured),
    ]  # fmt: skip
    for _ in range(ROUNDS):
        for name, run in kinds:
            began = time.perf_counter()
            run()
            times[name].append(time.perf_counter() - began)
    base = statistics.median(times["bare"])
    print(f"forward pass of {IMAGES} images: {base:.1f} s (median of {ROUNDS})")
    for name in ("captured", "measured"):
        print(f"{name:9} {statistics.median(times[name]) / base:.2f} x the bare forward pass")


if __name__ == "__main__":
    main()
