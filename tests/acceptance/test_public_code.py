"""``public_code`` pooling gives what the published formula gives, written from its definitions."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torchvision
from torch import nn

from catalog.checkpoint_references import resolve
from catalog.datasets import open_dataset
from catalog.model_loading import load_model
from catalog.models import find
from jobs.runners.images import normalise
from survey import MeasureSettings, measure
from tests.shared_data import shared
from tests.survey.public_formula import published, r2, watch

pytestmark = [pytest.mark.slow(seconds=245), pytest.mark.long]

SQUEEZENET = "squeezenet1_0-imagenet-deepcompression.pth"


def assert_agrees(
    model: nn.Module, images: torch.Tensor, micro_batch: int, columns: list[int]
) -> None:
    """Compare every published measure at every site, and the number of columns kept."""
    settings = MeasureSettings(
        images_per_score=len(images),
        micro_batch=micro_batch,
        ridge="absolute",
        pooling="public_code",
    )
    rows = list(measure(model, [images], settings))
    calls = watch(model, images.split(micro_batch), (nn.ReLU, nn.GELU))
    assert [row.site_name for row in rows] == list(calls)
    assert [row.channels for row in rows] == columns
    for row in rows:
        call = calls[row.site_name]
        assert row.status == "ok"
        for name, value in published(call).items():
            # Norms are in the network's own units: tens of thousands in a trained SqueezeNet.
            scale = max(1.0, abs(value)) if name == "norm" else 1.0
            assert getattr(row, name) == pytest.approx(value, abs=1e-6 * scale), (
                row.site_name,
                name,
            )
        # Directions near 1e-6 of the strongest hold rounding: both sides need the same one.
        expected = r2(call.before.rounded, call.after.rounded)
        if row.r2 is None:
            assert any(note.startswith("r2: rounding") for note in row.notes), row.site_name
            continue
        assert row.r2 == pytest.approx(expected, abs=1e-6), row.site_name


def photographs(
    model: str, checkpoint: str, dataset: str, count: int
) -> tuple[nn.Module, torch.Tensor]:
    """Return a trained network and the first images of a dataset, prepared for it."""
    (architecture,) = find(model)
    file = resolve(f"file:{shared(f'data/checkpoints/{checkpoint}')}", architecture, Path())
    folder = f"folder:{shared(f'data/{dataset}')}"
    samples = open_dataset(folder, Path()).samples(architecture.transform)
    pixels = torch.stack([next(samples).pixels for _ in range(count)])
    network = load_model(architecture, file).model
    return network, normalise(pixels, architecture.transform)


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("depth", "file"),
    [(20, "resnet20-12fca82f.th"), (32, "resnet32-d509ac18.th"), (44, "resnet44-014dd654.th")],
)
def test_trained_cifar_resnets(depth: int, file: str) -> None:
    model, images = photographs(f"small:cifar_resnet{depth}", file, "cifar10-sample", 128)
    blocks = (depth - 2) // 6
    columns = [16] * (1 + 2 * blocks) + [32] * 2 * blocks + [64] * 2 * blocks
    assert_agrees(model, images, 64, columns)


@pytest.mark.real_data
def test_a_trained_squeezenet() -> None:
    model, images = photographs("torchvision:squeezenet1_0", SQUEEZENET, "imagenet-sample", 64)
    fires = [(16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256)]
    columns = [96, *(c for squeeze, expand in fires for c in (squeeze, expand, expand)), 1000]
    assert_agrees(model, images, 16, columns)


@pytest.mark.parametrize(
    ("name", "size", "columns"),
    [
        # Tokens instead of channels: a class token and 7 x 7 patches.
        ("vit_b_32", 224, [50] * 12),
        # Rows of the image instead of channels.
        ("swin_t", 96, [24] * 2 + [12] * 2 + [6] * 6 + [3] * 2),
        ("convnext_tiny", 96, [24] * 3 + [12] * 3 + [6] * 9 + [3] * 3),
    ],
)
def test_networks_whose_channels_the_script_averages(
    name: str, size: int, columns: list[int]
) -> None:
    torch.manual_seed(0)
    model = torchvision.models.get_model(name, weights=None).eval()
    images = torch.randn(56, 3, size, size, generator=torch.Generator().manual_seed(1))
    assert_agrees(model, images, 14, columns)
