"""Real trained checkpoints on real images, through the command line, against slow arithmetic."""

from __future__ import annotations

import json
import os
import subprocess
import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from catalog.checkpoint_references import resolve
from catalog.datasets import open_dataset
from catalog.model_loading import load_model
from catalog.models import find
from jobs.runners.images import normalise
from tests.acceptance.command import once, rows, start, survey
from tests.shared_data import shared
from tests.survey.slow_affinity import slow_affinity

pytestmark = pytest.mark.real_data

NETWORKS = {
    20: "resnet20-12fca82f.th",
    32: "resnet32-d509ac18.th",
    44: "resnet44-014dd654.th",
}

LARGEST_BYTES = 2 * 1000**3


def pooled_by_hooks(
    model: nn.Module, images: list[torch.Tensor]
) -> list[tuple[str, np.ndarray, np.ndarray]]:
    """Return each ReLU module's spatial means in float64, seen by plain hooks: not our capture."""
    kept: dict[str, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
    for name, module in model.named_modules():
        if isinstance(module, nn.ReLU):
            xs, ys = kept.setdefault(name, ([], []))
            module.register_forward_pre_hook(
                lambda _m, args, xs=xs: xs.append(args[0].mean((2, 3), dtype=torch.float64))
            )
            module.register_forward_hook(
                lambda _m, _args, out, ys=ys: ys.append(out.mean((2, 3), dtype=torch.float64))
            )
    with torch.inference_mode():
        for batch in images:
            model(batch)
    return [(n, torch.cat(x).numpy(), torch.cat(y).numpy()) for n, (x, y) in kept.items()]


def first_batch_scores(model: str, checkpoint: str, dataset: str, count: int) -> dict[str, float]:
    """Compute the scores of the first images densely, site by site."""
    (architecture,) = find(model)
    loaded = load_model(architecture, resolve(checkpoint, architecture, Path())).model
    samples = open_dataset(dataset, Path()).samples(architecture.transform)
    pixels = [next(samples).pixels for _ in range(count)]
    images = normalise(torch.stack(pixels), architecture.transform).split(16)
    pairs = pooled_by_hooks(loaded, list(images))
    return {f"{name}#1": slow_affinity(x, y) for name, x, y in pairs}


def assert_agrees(home: Path, run_id: str, expected: dict[str, float]) -> None:
    records = rows(
        f"""SELECT site_name, affinity, status FROM batch_scores
            WHERE run_id = '{run_id}' AND batch = 0 ORDER BY site""",
        home,
    )
    assert [row["site_name"] for row in records] == list(expected)
    for row in records:
        assert row["status"] == "ok"
        assert row["affinity"] == pytest.approx(expected[row["site_name"]], abs=1e-6)


def asking_for(depth: int) -> tuple[str, ...]:
    """Return the command that measures a trained network, 128 images a score."""
    file = shared(f"data/checkpoints/{NETWORKS[depth]}")
    return (
        *("run", "--model", f"small:cifar_resnet{depth}", "--checkpoint", f"file:{file}"),
        *("--dataset", f"folder:{shared('data/cifar10-sample')}"),
        *("--images-per-score", "128", "--runner", "local"),
    )


@pytest.fixture(scope="session")
def whole(
    tmp_path_factory: pytest.TempPathFactory, worker_id: str, request: pytest.FixtureRequest
) -> Path:
    """A trained network measured on every image, once for all processes that share the tests."""
    asked = asking_for(request.param)
    name = f"resnet{request.param}"
    return once(tmp_path_factory, worker_id, name, lambda home: survey(*asked, home=home))


@pytest.mark.slow(seconds=60)
@pytest.mark.long
@pytest.mark.parametrize(
    ("whole", "depth", "sites", "hits"),
    [(20, 20, 19, 2070), (32, 32, 31, 2133), (44, 44, 43, 2098)],
    indirect=["whole"],
)
def test_cifar_resnets(whole, depth, sites, hits):
    (run,) = rows("SELECT * FROM runs", whole)
    assert (run["status"], run["sites"], run["images"]) == ("done", sites, 2560)
    assert run["measured_top1"] == hits / 2560
    (records,) = rows(
        """SELECT count(*) AS n, min(affinity) AS low, max(affinity) AS high,
                  count(*) FILTER (status <> 'ok') AS other FROM batch_scores""",
        whole,
    )
    assert (records["n"], records["other"]) == (20 * sites, 0)
    assert 0 <= records["low"] <= records["high"] <= 1
    _, _, model, _, checkpoint, _, dataset, *_ = asking_for(depth)
    assert_agrees(whole, run["run_id"], first_batch_scores(model, checkpoint, dataset, 128))


def peak_bytes(pid: int) -> int:
    """Return the most memory a process has held, 0 if it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((int(x.split()[1]) * 1024 for x in lines if x.startswith("VmHWM")), 0)


def descendants(pid: int) -> list[int]:
    """Return a process and all it started, as long as they live."""
    listed = subprocess.run(
        ["ps", "-e", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout.split()
    parents = {int(a): int(b) for a, b in zip(listed[::2], listed[1::2], strict=True)}
    result = [pid]
    for one in result:
        result += [child for child, parent in parents.items() if parent == one]
    return result


@pytest.mark.slow(seconds=80)
@pytest.mark.long
@pytest.mark.ray
def test_squeezenet_and_its_memory(tmp_path):
    file = shared("data/checkpoints/squeezenet1_0-imagenet-deepcompression.pth")
    dataset = f"folder:{shared('data/imagenet-sample')}"
    model, home = "torchvision:squeezenet1_0", tmp_path / "home"
    scan = start("run", "-m", model, "-c", f"file:{file}", "-d", dataset, home=home)
    peaks: dict[int, int] = {}
    watching = threading.Event()

    def watch() -> None:
        while not watching.wait(0.5):
            for pid in descendants(scan.pid):
                peaks[pid] = max(peaks.get(pid, 0), peak_bytes(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, err = scan.communicate(timeout=600)
    watching.set()
    watcher.join()
    assert scan.returncode == 0, err
    assert len(peaks) > 3
    assert 5e8 < max(peaks.values()) < LARGEST_BYTES, sorted(peaks.values())
    (run,) = rows("SELECT * FROM runs", home)
    assert (run["sites"], run["images"], run["batches"]) == (26, 512, 1)
    assert (run["measured_top1"], run["measured_top5"]) == (328 / 512, 429 / 512)
    assert_agrees(home, run["run_id"], first_batch_scores(model, f"file:{file}", dataset, 512))


@pytest.mark.slow(seconds=15)
@pytest.mark.long
def test_another_normalisation_is_another_run_with_other_accuracy(tmp_path):
    """The transform is part of what a run is: a survey file may change it."""
    file = shared("data/checkpoints/resnet20-12fca82f.th")
    zoo = tmp_path / "zoo.toml"
    zoo.write_text(
        f"""
        [[models]]
        name = "small:cifar_resnet20"
        checkpoints = [{json.dumps(f"file:{os.path.relpath(file, tmp_path)}")}]
        mean = [0.5, 0.5, 0.5]
        std = [0.5, 0.5, 0.5]
        [[datasets]]
        name = {json.dumps(f"folder:{shared('data/cifar10-sample')}")}
        limit = 512
        """
    )
    survey("run", zoo, "--runner", "local", home=tmp_path / "home")
    (run,) = rows("SELECT measured_top1, transform FROM runs", tmp_path / "home")
    assert run["measured_top1"] < 0.80
    assert json.loads(run["transform"])["mean"] == [0.5, 0.5, 0.5]
