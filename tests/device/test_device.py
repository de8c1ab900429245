"""A real accelerator: the numbers of a processor, no waiting, too little memory, a scan by Ray."""

from __future__ import annotations

import dataclasses
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from catalog.models.torchvision import TorchvisionSource
from catalog.store.records import BatchRecord
from jobs.planning.definition import parse_definition
from jobs.planning.holdings import Holdings
from jobs.planning.job import Job
from jobs.planning.plan import make_plan
from jobs.runners.events import Event, Failed, Finished, Halved
from jobs.runners.task import Shard, Task
from jobs.runners.worker import run_task
from survey.capture.forward import Capture
from survey.eval_mode import evaluating
from survey.results import BatchScores
from tests.acceptance.command import rows, survey
from tests.shared_data import SHARED, shared

pytestmark = pytest.mark.gpu

SOURCE = TorchvisionSource()

DEVICE = "cuda:0"

#: How far scores of two devices may lie apart, as those of two types do.
APART = 1e-4

#: Real weights with their images, and the number of these in a score.
TRAINED = [
    ("small:digits_resnet14", "bundled", "digits", 256),
    ("small:cifar_resnet20", "file:{}/resnet20-12fca82f.th", "folder:{}/cifar10-sample", 256),
    ("torchvision:squeezenet1_0", "file:{}/squeezenet1_0-imagenet-deepcompression.pth",
     "folder:{}/imagenet-sample", 512),
]  # fmt: skip


@pytest.fixture(autouse=True)
def _device() -> Iterator[None]:
    """Fail where torch sees no device, and leave its memory unbounded."""
    assert torch.cuda.is_available(), "torch sees no GPU: these tests need one"
    yield
    torch.cuda.set_per_process_memory_fraction(1.0)


def job(model: str, checkpoint: str, dataset: str, size: int, **settings: object) -> Job:
    """Return one job of a survey."""
    values = {
        "models": [{"name": model, "checkpoints": [checkpoint]}],
        "datasets": [{"name": dataset}],
        "settings": {"images_per_score": size, **settings},
    }
    (planned,) = make_plan(parse_definition(values, "test", SHARED), {}, Holdings()).jobs
    return planned


def events_of(planned: Job, device: str) -> list[Event]:
    """Return a worker's events, which end well."""
    events = list(run_task(Task(planned, 1, Shard()), device, torch.get_num_threads()))
    assert not isinstance(events[-1], Failed), events[-1]
    assert isinstance(events[-1], Finished)
    return events


def batches_of(planned: Job, device: str) -> list[BatchScores]:
    """Return a worker's batches, without what differs from time to time."""
    events = events_of(planned, device)
    records = [event for event in events if isinstance(event, BatchRecord)]
    return [dataclasses.replace(record.batch, seconds=0) for record in records]


def assert_close(ours: list[BatchScores], theirs: list[BatchScores]) -> None:
    """Compare every score but for those that are marked as rounding."""
    assert [batch.images for batch in ours] == [batch.images for batch in theirs]
    for mine, its in zip(ours, theirs, strict=True):
        assert mine.top1_hits == pytest.approx(its.top1_hits, abs=1)
        for score, other in zip(mine.scores, its.scores, strict=True):
            assert (score.site, score.status) == (other.site, other.status)
            if score.affinity is not None and not {*score.flags, *other.flags} & {"rounding"}:
                for name in ("affinity", "cka", "r2"):
                    value, known = getattr(score, name), getattr(other, name)
                    # Rounding that would move R2 too far leaves it without a value on one of both.
                    if None not in (value, known):
                        assert value == pytest.approx(known, abs=APART), (score.site, name)


@pytest.mark.parametrize("trained", TRAINED, ids=lambda trained: trained[0])
def test_scores_are_those_of_a_processor(trained: tuple[str, str, str, int]) -> None:
    model, checkpoint, dataset, size = trained
    checkpoint = checkpoint.format(SHARED / "data/checkpoints")
    dataset = dataset.format(SHARED / "data")
    for given in (checkpoint, dataset):
        kind, _, path = given.partition(":")
        if kind in ("file", "folder"):
            shared(path.removeprefix(f"{SHARED}/"))
    planned = job(model, checkpoint, dataset, size)
    ours = batches_of(planned, DEVICE)
    assert_close(ours, batches_of(planned, "cpu"))
    # And the same bits again, whichever thread scores which site when.
    assert batches_of(planned, DEVICE) == ours


def waits(forward: Callable[[torch.Tensor], object], images: torch.Tensor) -> Counter[str]:
    """Return what a pass waits for the device for, by CUDA's own account."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        torch.cuda.set_sync_debug_mode("warn")
        try:
            forward(images)
        finally:
            torch.cuda.set_sync_debug_mode("default")
    return Counter(str(each.message) for each in caught if "called a sync" in str(each.message))


def test_waiting_is_seen() -> None:
    images = torch.ones(3, device=DEVICE)
    assert waits(lambda x: x.sum().item(), images).total() == 1


@pytest.mark.parametrize("name", SOURCE.names())
def test_a_captured_pass_waits_no_more_than_the_bare_network(name: str) -> None:
    architecture = SOURCE.get(name)
    with torch.device(DEVICE):
        network = architecture.build()
    size = architecture.transform.size
    images = torch.randn(2, 3, size, size, device=DEVICE)
    with evaluating(network), torch.inference_mode():
        # Algorithms are chosen in the first pass.
        network(images)
        capture = Capture(network)
        bare, captured = waits(network, images), waits(capture.forward, images)
        output, pairs = capture.forward(images)
        assert captured == bare
        assert torch.equal(output, network(images))
    assert pairs


def test_too_little_memory_halves_the_micro_batch() -> None:
    planned = job("torchvision:resnet18", "init:0", "digits[:512]", 256, micro_batch=256)
    whole = batches_of(planned, DEVICE)
    torch.cuda.empty_cache()
    _, memory = torch.cuda.mem_get_info()
    # 256 images of 224 x 224 take 3.3 GB in the first block alone.
    torch.cuda.set_per_process_memory_fraction(1.5 * 2**30 / memory)
    events = events_of(planned, DEVICE)
    assert [event.micro_batch for event in events if isinstance(event, Halved)]
    records = [event for event in events if isinstance(event, BatchRecord)]
    assert_close([record.batch for record in records], whole)


def test_a_scan_by_ray_uses_the_device(tmp_path: Path) -> None:
    home = tmp_path / "home"
    asked = ("--model", "small:digits_resnet14", "--checkpoint", "bundled")
    survey("run", *asked, "--dataset", "digits", "--device", "cuda", home=home)
    (run,) = rows("SELECT status, device, images FROM runs", home)
    assert run == {"status": "done", "device": "cuda", "images": 1797}
