"""What the choice of the ridge changes on real checkpoints: scores under the relative and absolute.

    python bench/ridge.py CHECKPOINTS CIFAR PHOTOGRAPHS

CHECKPOINTS is a folder with files of weights of small:cifar_resnet20 and torchvision:squeezenet1_0,
CIFAR and PHOTOGRAPHS are folders of pictures by class. Each network sees 512 images in one score.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import torch

from catalog.checkpoint_references import resolve
from catalog.datasets import open_dataset
from catalog.model_loading import load_model
from catalog.models import find
from jobs.runners.images import normalise
from survey import MeasureSettings, SiteScore, measure

IMAGES = 512

#: A network, the beginning of its file's name, and which of the two folders it is measured on.
NETWORKS = (
    ("small:cifar_resnet20", "resnet20", 0),
    ("torchvision:squeezenet1_0", "squeezenet1_0", 1),
)


def scores(name: str, file: Path, folder: str) -> dict[str, list[SiteScore]]:
    """Return a network's rows under each ridge."""
    (architecture,) = find(name)
    network = load_model(architecture, resolve(f"file:{file}", architecture, Path())).model
    samples = open_dataset(f"folder:{folder}", Path()).samples(architecture.transform)
    shown = (sample.pixels for sample in samples if sample.pixels is not None)
    pixels = torch.stack(list(islice(shown, IMAGES)))
    images = normalise(pixels, architecture.transform)
    return {
        ridge: list(measure(network, [images], MeasureSettings(IMAGES, ridge=ridge)))
        for ridge in ("relative", "absolute")
    }


def main(checkpoints: str, *folders: str) -> None:
    """Measure and print."""
    for name, begin, place in NETWORKS:
        (file,) = Path(checkpoints).glob(f"{begin}*")
        rows = scores(name, file, folders[place])
        flagged = sum("ridge" in row.flags for row in rows["absolute"])
        print(f"{name}: {len(rows['absolute'])} sites, {flagged} flagged ridge")
        for metric in ("affinity", "affinity_plain"):
            pairs = [
                (getattr(relative, metric), getattr(absolute, metric), relative.site_name)
                for relative, absolute in zip(rows["relative"], rows["absolute"], strict=True)
            ]
            known = [(a - b, site) for a, b, site in pairs if a is not None and b is not None]
            moved, site = max(known, key=lambda each: abs(each[0]))
            print(f"  {metric} of {len(known)} sites: relative less absolute at most"
                  f" {moved:.1e}, at {site}")  # fmt: skip


if __name__ == "__main__":
    main(*sys.argv[1:4])
