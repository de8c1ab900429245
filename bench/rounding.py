"""Benchmark of rounding: what float32 and float64 passes of one network disagree by.

Each network measures the same images in both types, with the default settings but for the number
of images. A site counts where both give ``ok`` without the flag ``rounding``; of these are printed
the largest differences of the affinity, CKA, R2, of the entropy's change, and of the norm relative
to itself. Noise over float64 compares the estimate of each side's noise, made by a disturbed pass
of four images, with the deviation between the two types. Photographs are cut to squares.
"""

from __future__ import annotations

import argparse
import copy
import math
import platform
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import timm
import torch
import torchvision
from PIL import Image
from torch import nn

from catalog.models.cifar import CifarSource
from survey import MeasureSettings, measure
from survey.capture.forward import Capture
from survey.capture.rounding import NOISE_IMAGES
from survey.results import SiteScore

#: Quantity, and by how much passes in float32 and float64 may differ; the norm relative to itself.
LIMITS = {"affinity": 1e-4, "cka": 1e-4, "r2": 1e-4, "entropy_change": 1e-3, "norm": 1e-4}

#: Random weights: name, images and their size.
TORCHVISION = [
    ("alexnet", 64, 96), ("vgg11", 24, 64), ("vgg11_bn", 24, 64), ("resnet18", 64, 64),
    ("resnet50", 32, 64), ("resnext50_32x4d", 24, 64), ("densenet121", 48, 64),
    ("googlenet", 64, 96), ("inception_v3", 24, 96), ("squeezenet1_0", 64, 96),
    ("squeezenet1_1", 64, 96), ("mobilenet_v2", 48, 64), ("mobilenet_v3_small", 96, 96),
    ("mobilenet_v3_large", 48, 64), ("mnasnet0_5", 64, 64), ("shufflenet_v2_x1_0", 64, 64),
    ("efficientnet_b0", 48, 64), ("efficientnet_v2_s", 24, 64), ("regnet_y_400mf", 48, 64),
    ("regnet_x_400mf", 48, 64), ("convnext_tiny", 32, 64), ("vit_b_32", 16, 224),
    ("swin_t", 16, 64), ("maxvit_t", 4, 224),
]  # fmt: skip
TIMM = [
    ("mixer_s32_224", 32, 224), ("resmlp_12_224", 16, 224), ("gmlp_ti16_224", 16, 224),
    ("vit_tiny_patch16_224", 16, 224), ("pit_ti_224", 16, 224), ("levit_128s", 32, 224),
    ("xcit_nano_12_p16_224", 16, 224), ("poolformer_s12", 32, 64), ("convmixer_768_32", 8, 64),
    ("nfnet_f0", 16, 64), ("ghostnet_100", 48, 96), ("gcresnet50t", 24, 64),
    ("repvgg_a0", 32, 64), ("mobilevit_xxs", 32, 128), ("coat_lite_tiny", 8, 224),
    ("efficientformer_l1", 8, 224), ("edgenext_xx_small", 32, 96),
]  # fmt: skip
#: Trained weights: name, file, images and their size.
TRAINED = [
    ("cifar_resnet20", "resnet20-12fca82f.th", 512, 32),
    ("cifar_resnet32", "resnet32-d509ac18.th", 256, 32),
    ("cifar_resnet44", "resnet44-014dd654.th", 256, 32),
    ("squeezenet1_0", "squeezenet1_0-imagenet-deepcompression.pth", 256, 128),
]


@dataclass(frozen=True)
class Choice:
    """One network, the number of its images and their size."""

    name: str
    weights: str
    images: int
    size: int
    build: Callable[[], nn.Module]


@dataclass
class Agreement:
    """How far the two types disagree over a network's sites."""

    sites: int = 0
    #: Sites that count, and the others: constant, flagged, or not scored.
    counted: int = 0
    constant: int = 0
    flagged: int = 0
    #: Sites that count and have no R2 on account of rounding.
    no_r2: int = 0
    worst: dict[str, float] = field(default_factory=lambda: dict.fromkeys(LIMITS, 0.0))
    #: Estimated noise over the one that float64 shows, a number for each side of each site.
    ratios: list[float] = field(default_factory=list)

    @property
    def agrees(self) -> bool:
        """Whether every difference is within its limit."""
        return all(self.worst[name] <= limit for name, limit in LIMITS.items())


def choices(data: Path) -> Iterator[Choice]:
    """Yield the networks: those with random weights, then the trained ones."""
    for name, count, size in TORCHVISION:
        yield Choice(f"torchvision {name}", "random", count, size, partial(_torchvision, name))
    for name, count, size in TIMM:
        yield Choice(f"timm {name}", "random", count, size, partial(_timm, name))
    for name, file, count, size in TRAINED:
        path = data / "checkpoints" / file
        yield Choice(name, "trained", count, size, partial(_trained, name, path))


def _torchvision(name: str) -> nn.Module:
    plain = {"init_weights": True} if name in ("googlenet", "inception_v3") else {}
    model: nn.Module = torchvision.models.get_model(name, weights=None, **plain)
    return model


def _timm(name: str) -> nn.Module:
    model: nn.Module = timm.create_model(name, pretrained=False)
    return model


def _trained(name: str, path: Path) -> nn.Module:
    loaded = torch.load(path, map_location="cpu", weights_only=True)
    state = {key.removeprefix("module."): v for key, v in loaded.get("state_dict", loaded).items()}
    ours = name.startswith("cifar")
    model = CifarSource().get(name).build() if ours else _torchvision(name)
    model.load_state_dict(state, strict=not ours)
    return model


def photographs(folder: Path, count: int, size: int) -> torch.Tensor:
    """Return photographs spread over a folder's classes, normalised as is usual."""
    files = sorted(folder.glob("*/*.jpg"))
    chosen = files[:: len(files) // count][:count]
    pixels = torch.stack([_square(path, size) for path in chosen])
    means, deviations = torch.tensor([[0.485, 0.456, 0.406], [0.229, 0.224, 0.225]])
    normalised: torch.Tensor = (pixels - means[:, None, None]) / deviations[:, None, None]
    return normalised


def _square(path: Path, size: int) -> torch.Tensor:
    image = Image.open(path).convert("RGB")
    side = min(image.size)
    left, top = (image.width - side) // 2, (image.height - side) // 2
    image = image.crop((left, top, left + side, top + side)).resize((size, size))
    pixels: torch.Tensor = torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1) / 255
    return pixels


def compared(model: nn.Module, images: torch.Tensor) -> Agreement:
    """Measure one network in both types.

    Parameters
    ----------
    model : torch.nn.Module
        With float32 weights.
    images : torch.Tensor
        Its images, float32; all make one score.
    """
    settings = MeasureSettings(images_per_score=len(images), micro_batch=16)
    exact = copy.deepcopy(model).double()
    result = Agreement(ratios=list(_ratios(model, exact, images)))
    single = measure(model, [images], settings)
    double = measure(exact, [images.double()], settings)
    for ours, theirs in zip(single, double, strict=True):
        _add(result, ours, theirs)
    return result


def _add(result: Agreement, ours: SiteScore, theirs: SiteScore) -> None:
    result.sites += 1
    result.constant += ours.status == "constant"
    result.flagged += "rounding" in ours.flags
    if (ours.status, theirs.status) != ("ok", "ok") or "rounding" in (*ours.flags, *theirs.flags):
        return
    result.counted += 1
    result.no_r2 += any("rounding" in note for note in ours.notes)
    for name in LIMITS:
        a, b = getattr(ours, name), getattr(theirs, name)
        if a is not None and b is not None:
            scale = (abs(b) or 1.0) if name == "norm" else 1.0
            result.worst[name] = max(result.worst[name], abs(a - b) / scale)


def _ratios(model: nn.Module, exact: nn.Module, images: torch.Tensor) -> Iterator[float]:
    """Yield, for each side of each site, the estimated noise over what float64 shows."""
    few = images[:16]
    with torch.inference_mode():
        capture = Capture(model.eval())
        pairs = capture.with_noise(few[:NOISE_IMAGES], capture.forward(few)[1])
        doubles = Capture(exact.eval()).forward(few.double())[1]
    for pair, double in zip(pairs, doubles, strict=True):
        if pair.noise is None:
            continue
        for noise, ours, theirs in (
            (pair.noise.x, pair.x, double.x),
            (pair.noise.y, pair.y, double.y),
        ):
            assert ours is not None
            assert theirs is not None
            shown = ours - theirs
            shown -= shown.mean(dim=0)
            # An output that is one number in float32 shows nothing.
            if float((ours - ours.mean(dim=0)).square().sum()) > 0 and bool(shown.any()):
                yield math.sqrt(float(noise.square().mean() / shown.square().mean()))


def table(rows: list[tuple[Choice, Agreement]]) -> Iterator[str]:
    """Yield the lines of a table in Markdown."""
    yield (
        "| network | weights | images | sites | constant | `rounding` | affinity | CKA | R2 "
        "| entropy | norm |"
    )
    yield "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    for choice, agreement in rows:
        numbers = " | ".join(f"{agreement.worst[name]:.0e}" for name in LIMITS)
        yield (
            f"| {choice.name} | {choice.weights} | {choice.images} of {choice.size}x{choice.size} "
            f"| {agreement.sites} | {agreement.constant} | {agreement.flagged} | {numbers} |"
        )


def agreement(choice: Choice, data: Path) -> Agreement:
    """Compare the two types over a network, and print how it went."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    began = time.perf_counter()
    folder = "cifar10-sample" if "cifar" in choice.name else "imagenet-sample"
    images = photographs(data / folder, choice.images, choice.size)
    result = compared(choice.build(), images)
    seconds = time.perf_counter() - began
    worst = " ".join(f"{name} {value:.0e}" for name, value in result.worst.items())
    print(f"{choice.name}: {result.agrees}, {worst}, {seconds:.1f} s", flush=True)
    return result


def main() -> None:
    """Compare all networks, or those named, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder of images and checkpoints")
    parser.add_argument("--only", default="", help="a part of the names to compare")
    parser.add_argument("--output", type=Path, help="where to write the page")
    parser.add_argument("--processes", type=int, default=2, help="networks compared at a time")
    options = parser.parse_args()
    wanted = [choice for choice in choices(options.data) if options.only in choice.name]
    with ProcessPoolExecutor(options.processes) as pool:
        found = pool.map(agreement, wanted, [options.data] * len(wanted))
        rows = list(zip(wanted, found, strict=True))
    page = "\n".join(_page(rows))
    if options.output:
        options.output.write_text(page, encoding="utf-8")
    else:
        print(page)


def _page(rows: list[tuple[Choice, Agreement]]) -> Iterator[str]:
    counts: Counter[str] = Counter()
    for _, agreement in rows:
        counts += Counter(
            sites=agreement.sites, counted=agreement.counted, constant=agreement.constant,
            flagged=agreement.flagged, no_r2=agreement.no_r2,
        )  # fmt: skip
    ratios = np.array([ratio for _, agreement in rows for ratio in agreement.ratios])
    low, first, middle, last, high = np.quantile(ratios, [0, 0.01, 0.5, 0.99, 1])
    agreeing = sum(agreement.agrees for _, agreement in rows)
    yield "# What rounding moves"
    yield ""
    yield (
        "The same images pass through each network in float32 and in float64. Compared are the "
        "sites\nthat are `ok` without the flag `rounding`: the largest difference over a network's "
        "sites of the\naffinity, CKA, R2, of the entropy's change, and of the norm relative to "
        "itself. At a *constant*\nsite the input or the output varies by no more than rounding, "
        "and nothing is measured."
    )
    yield ""
    yield "    python bench/rounding.py --data FOLDER --output docs/rounding.md"
    yield ""
    yield (
        f"Python {platform.python_version()}, torch {torch.__version__}, torchvision "
        f"{torchvision.__version__}, timm {timm.__version__}; default settings."
    )
    yield ""
    yield (
        f"- {agreeing} of {len(rows)} networks agree: affinity, CKA and R2 to 1e-4, the entropy's "
        "change to 1e-3,\n  the norm to 1e-4 of itself."
    )
    yield (
        f"- Of {counts['sites']} sites {counts['counted']} are compared, {counts['constant']} are "
        f"constant, {counts['flagged']} are flagged. {counts['no_r2']} of those\n  compared have "
        "no R2, since rounding turns the input's weakest directions too far."
    )
    yield (
        f"- The noise that a disturbed pass of four images finds is {middle:.1f} times the one "
        f"that float64\n  shows (median), from {first:.2f} to {last:.1f} for 98 % of sites, "
        f"{low:.2f} to {high:.1f} for all."
    )
    yield ""
    yield from table(rows)
    yield ""


if __name__ == "__main__":
    main()
