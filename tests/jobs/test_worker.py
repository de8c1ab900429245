"""One worker's work: what it says, and that going on is the same as never having stopped."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from catalog.datasets import open_dataset
from catalog.models.base import InputTransform
from jobs.events import BatchDone, Failed, Finished, Started
from jobs.job import Progress
from jobs.ledger import advanced
from jobs.worker import normalise, run_job
from tests.jobs.jobs import job


def said(task, progress=None):
    return list(run_job(task, progress or Progress(), "cpu", 1))


@pytest.fixture(scope="module")
def whole():
    return said(job())


def test_a_worker_starts_measures_and_finishes(whole):
    assert [type(event) for event in whole] == [Started, *[BatchDone] * 8, Finished]
    assert whole[0].parameters == 432 + 32 + 4672 + 13952 + 55552 + 650
    assert whole[0].gflops == pytest.approx(0.0125, rel=0.05)
    batches = [event.batch for event in whole[1:-1]]
    assert [batch.images for batch in batches] == [256] * 7 + [5]
    assert [len(batch.scores) for batch in batches] == [7] * 7 + [0]
    assert sum(batch.labelled for batch in batches) == 1797
    assert [event.end_position for event in whole[1:-1]] == [*range(256, 1793, 256), 1797]


@pytest.mark.parametrize("stop", [1, 4, 7, 8])
def test_going_on_gives_the_batches_that_were_missing(whole, stop):
    progress = Progress()
    for event in whole[1 : stop + 1]:
        progress = advanced(progress, event)
    rest = said(job(), progress)
    assert len(rest) == 2 + 8 - stop
    for ours, theirs in zip(rest[1:-1], whole[stop + 1 : -1], strict=True):
        assert ours.end_position == theirs.end_position
        assert dataclasses.replace(ours.batch, seconds=0) == dataclasses.replace(
            theirs.batch, seconds=0
        )


def pictures(folder: Path, broken: tuple[int, ...], count: int) -> Path:
    """Write pictures without labels, some of which cannot be decoded."""
    folder.mkdir()
    generator = np.random.default_rng(0)
    for number in range(count):
        pixels = generator.integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(folder / f"{number:03}.png")
    names = [
        s.name for s in open_dataset(f"folder:{folder}", Path()).samples(InputTransform(32, 32))
    ]
    for place in broken:
        (folder / names[place]).write_bytes(b"not a picture")
    return folder


def test_broken_images_are_counted_where_they_stand(tmp_path):
    broken = (0, 5, 40, 63, 64, 99)  # first, inside, around the end of a batch, and last
    folder = pictures(tmp_path / "pictures", broken, 100)
    events = said(job(dataset=f"folder:{folder}", size=32))
    batches = events[1:-1]
    assert [event.batch.images for event in batches] == [32, 32, 30]
    skipped = [name for event in batches for name in event.skipped] + list(events[-1].skipped)
    assert len(skipped) == len(set(skipped)) == len(broken)
    progress = advanced(advanced(Progress(), batches[0]), batches[1])
    rest = said(job(dataset=f"folder:{folder}", size=32), progress)
    assert [*rest[1].skipped, *rest[-1].skipped] == [*batches[2].skipped, *events[-1].skipped]


def test_a_dataset_that_changes_under_a_scan_is_no_finished_run(tmp_path):
    folder = pictures(tmp_path / "pictures", (), 70)
    events = run_job(job(dataset=f"folder:{folder}", size=32), Progress(), "cpu", 1)
    seen = [next(events), next(events)]
    (folder / "another.png").write_bytes((folder / "000.png").read_bytes())
    seen += events
    assert [type(event) for event in seen] == [Started, *[BatchDone] * 3, Failed]
    assert "the dataset changed since the run was planned" in seen[-1].message


@pytest.mark.parametrize(
    ("changes", "stage"),
    [
        ({"architecture": "cifar_resnet9"}, "build"),
        ({"dataset": "folder:gone"}, "data"),
        ({"checkpoint_sha256": "0" * 64}, "load"),
        ({"dataset_stat": "0" * 64}, "data"),
        ({"architecture": "digits_vgg7", "transform": InputTransform(2, 2)}, "load"),
    ],
)
def test_a_failure_says_at_which_stage(changes, stage):
    events = said(dataclasses.replace(job(), **changes))
    assert isinstance(events[-1], Failed)
    assert (events[-1].stage, bool(events[-1].message)) == (stage, True)
    assert "Traceback" in events[-1].traceback


def test_normalising_is_torchvisions(tmp_path):
    pixels = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    transform = InputTransform(8, 8)
    mean, std = (torch.tensor(v)[:, None, None] for v in (transform.mean, transform.std))
    expected = (pixels.float() / 255 - mean) / std
    assert torch.allclose(normalise(pixels, transform), expected, atol=1e-6)
    floats = torch.randn(2, 3, 8, 8)
    assert normalise(floats, transform) is floats
