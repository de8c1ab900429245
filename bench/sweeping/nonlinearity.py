"""Non-linearity coefficient and Hamming density of some architectures: ``docs/nonlinearity.md``.

Networks have the random weights of seed 0, and images are photographs of a folder: of
github.com/EliSchwartz/imagenet-sample-images, one a class. Rows are kept beside the page as they
are measured, so that an interrupted table goes on where it was. One core takes some ten minutes.

    python -m bench.sweeping.nonlinearity folder:imagenet-sample --output docs/nonlinearity.md
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import torch
import torchvision

from catalog.checkpoint_references import resolve
from catalog.datasets import open_dataset
from catalog.model_loading import load_model
from catalog.models import find
from catalog.models.base import InputTransform
from docs.generate.tables import markdown_table
from jobs.runners.images import normalise
from survey import measure_network
from survey.network_measures.base import NetworkScore

#: One of each of twelve families and another RegNet, each at 224 pixels, the cheapest first: at
#: least ten of them have a value of each measure.
NAMES = (
    "mobilenet_v3_small", "efficientnet_b0", "shufflenet_v2_x0_5", "mnasnet0_5", "squeezenet1_1",
    "alexnet", "mobilenet_v2", "regnet_y_400mf", "regnet_x_400mf", "resnet18", "googlenet",
    "densenet121", "vgg11",
)  # fmt: skip

#: The measures, each with the images it gets here: fewer than it asks for.
IMAGES = {"nonlinearity_coefficient": 32, "hamming_density": 3}

COLUMNS = ["architecture", *IMAGES, "Hamming density a unit", "reason for none", "s"]


def row(name: str, dataset: str) -> list[str]:
    """Measure one line of the table."""
    (architecture,) = find(f"torchvision:{name}")
    model = load_model(architecture, resolve("init:0", architecture, Path())).model
    images = photographs(dataset, architecture.transform, max(IMAGES.values()))
    began = time.process_time()
    scores: dict[str, NetworkScore] = {}
    for measure, count in IMAGES.items():
        scores |= measure_network(model, images.shape[1:], measure, [images[:count]])
    seconds = time.process_time() - began
    reasons = sorted({score.reason for score in scores.values() if score.reason})
    return [name, *map(cell, scores.values()), "; ".join(reasons), f"{seconds:.0f}"]


def photographs(dataset: str, transform: InputTransform, count: int) -> torch.Tensor:
    """Return the first images of a dataset as a network takes them."""
    samples = open_dataset(f"{dataset}[:{count}]", Path()).samples(transform)
    pixels = torch.stack([sample.pixels for sample in samples if sample.pixels is not None])
    return normalise(pixels.contiguous(), transform)


def cell(score: NetworkScore) -> str:
    """Return a value with its standard error."""
    return "NULL" if score.value is None else f"{score.value:.3g} ± {score.standard_error:.1g}"


def page(rows: list[list[str]]) -> str:
    """Return the page."""
    coefficient, density = IMAGES.values()
    return f"""# Non-linearity of {len(rows)} architectures

Made by
`python -m bench.sweeping.nonlinearity folder:imagenet-sample --output docs/nonlinearity.md`, with
torch {torch.__version__} and torchvision {torchvision.__version__}. The weights are those of
`init:0`. The images are the first of 512 photographs, one a class of ImageNet, from
github.com/EliSchwartz/imagenet-sample-images, prepared as each architecture prepares them at 224
pixels. The coefficient reads {coefficient} images, the Hamming density the closed paths around
{density}, of 8 lines and 16 steps a line ([measures.md](measures.md)). After ± stands one standard
error: of the coefficient by the bootstrap over images, of the density by the spread over paths, so
that it is rough. NULL is no value, for the reason that is given. Seconds are processor time on one
core.

{markdown_table(COLUMNS, rows)}
"""


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dataset", help="such as folder:imagenet-sample")
    parser.add_argument("--output", type=Path, required=True)
    options = parser.parse_args()
    torch.set_num_threads(1)
    kept = options.output.with_suffix(".json")
    rows = json.loads(kept.read_text()) if kept.exists() else []
    done = {each[0] for each in rows}
    for name in NAMES:
        if name not in done:
            rows.append(row(name, options.dataset))
            kept.write_text(json.dumps(rows))
            print(*rows[-1], sep="\t", flush=True)
    options.output.write_text(page(sorted(rows)), encoding="utf-8")
    kept.unlink()


if __name__ == "__main__":
    main()
