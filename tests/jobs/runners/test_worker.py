"""One worker: its events, and that a continued job equals one that never stopped."""

import dataclasses
import sys
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import jobs.runners.images
import jobs.runners.loading
import jobs.runners.worker
import survey.measuring
from catalog.datasets import open_dataset
from catalog.models.base import InputTransform
from catalog.models.cifar import CifarSource
from catalog.models.consent import trust
from catalog.store.records import BatchRecord
from jobs.planning.holdings import Holdings
from jobs.planning.plan import make_plan
from jobs.runners.events import Failed, Finished, Halved, Skipped, Started
from jobs.runners.images import normalise
from jobs.runners.task import Shard, Task
from jobs.runners.worker import run_task
from jobs.scan.job_log import append, described, read_log
from survey.errors import SettingsError
from survey.score_queue import Overlap
from survey.stopping import Spread
from tests.jobs import jobs as made
from tests.jobs.jobs import declared

pytestmark = pytest.mark.slow(seconds=15)

#: Images a score, and those of seven scores and a partial batch of five.
SIZE, IMAGES = 32, 7 * 32 + 5


def job(dataset=f"digits[:{IMAGES}]", size=SIZE, **changes):
    """Return a job of a network with random weights."""
    return made.job(dataset=dataset, size=size, **changes)


def events_of(planned, shard=None, **changes):
    """Return a worker's events on a shard of a job, by default the whole of it."""
    return list(run_task(Task(planned, 1, shard or Shard(), **changes), "cpu", 1))


def batches_in(events):
    """Return the batches among events without what differs from time to time."""
    return [
        dataclasses.replace(event.batch, seconds=0)
        for event in events
        if isinstance(event, BatchRecord)
    ]


@pytest.fixture(scope="module")
def whole():
    return events_of(job())


@pytest.fixture(params=[Overlap(), Overlap(2, 2)], ids=["in turn", "overlapping"])
def overlap(request, monkeypatch):
    """Score between passes, as on a processor, or beside them, as on an accelerator."""
    monkeypatch.setattr(survey.measuring, "overlap_of", lambda _: request.param)


def test_a_worker_starts_measures_and_finishes(whole):
    assert [type(event) for event in whole] == [Started, *[BatchRecord] * 8, Finished]
    assert whole[0].parameters == 432 + 32 + 4672 + 13952 + 55552 + 650
    assert whole[0].gflops == pytest.approx(0.0125, rel=0.05)
    batches = [event.batch for event in whole[1:-1]]
    assert [batch.images for batch in batches] == [SIZE] * 7 + [5]
    assert [len(batch.scores) for batch in batches] == [7] * 7 + [0]
    assert sum(batch.labelled for batch in batches) == IMAGES
    assert [event.end_position for event in whole[1:-1]] == [*range(SIZE, IMAGES, SIZE), IMAGES]


def test_a_lone_image_is_as_contiguous_as_several(tmp_path, monkeypatch):
    # Five pictures, four in a score: the last forward pass has one. Networks may view their input.
    for number in range(5):
        pixels = np.random.default_rng(number).integers(0, 256, (32, 32, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(tmp_path / f"{number}.png")
    seen = []

    def recorded(images, transform):
        seen.append((len(images), images.is_contiguous()))
        return normalise(images, transform)

    monkeypatch.setattr(jobs.runners.images, "normalise", recorded)
    assert isinstance(events_of(job(dataset=f"folder:{tmp_path}", size=4))[-1], Finished)
    assert seen == [(4, True), (1, True)]


@pytest.mark.parametrize("stop", [1, 4, 7, 8])
def test_going_on_gives_the_batches_that_were_missing(whole, stop, overlap):
    rest = events_of(job(), Shard(stop, None, whole[stop].end_position))
    assert len(rest) == 2 + 8 - stop
    assert [event.end_position for event in rest[1:-1]] == [
        event.end_position for event in whole[stop + 1 : -1]
    ]
    assert batches_in(rest) == batches_in(whole)[stop:]


def test_parts_equal_the_whole_bit_for_bit(whole, overlap):
    shards = [Shard(5, None, None), Shard(0, 2, 0), Shard(2, 5, None)]
    events_of_shards = [events_of(job(), shard) for shard in shards]
    parts = [batch for events in events_of_shards for batch in batches_in(events)]
    assert sorted(parts, key=lambda batch: batch.batch) == batches_in(whole)
    assert all(isinstance(events[-1], Finished) for events in events_of_shards)


def test_a_part_after_the_last_image_is_empty(overlap):
    events = events_of(job(), Shard(9, None, None))
    assert [type(event) for event in events] == [Started, Finished]


class Scarce:
    """Stands in for the measuring, with memory for so many images at once."""

    def __init__(self, fits: int, error: Exception) -> None:
        self.fits, self.error, self.sizes = fits, error, []
        self.measure = jobs.runners.worker.measure_batches

    def __call__(self, model, feed, settings, **position):
        self.sizes.append(settings.micro_batch)
        for batch in self.measure(model, feed, settings, **position):
            if settings.micro_batch > self.fits and batch.batch == 2:
                raise self.error
            yield batch


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory."),
        MemoryError(),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried"),
    ],
)
def test_too_little_memory_halves_the_micro_batch(monkeypatch, whole, error, overlap):
    scarce = Scarce(16, error)
    monkeypatch.setattr(jobs.runners.worker, "measure_batches", scarce)
    events = events_of(job())
    assert [event.micro_batch for event in events if isinstance(event, Halved)] == [32, 16]
    assert scarce.sizes == [64, 32, 16]
    assert [e.micro_batch for e in events if isinstance(e, BatchRecord)] == [64, 64] + [16] * 6
    ours, theirs = batches_in(events), batches_in(whole)
    assert ours[:2] == theirs[:2]
    assert [batch.batch for batch in ours] == [batch.batch for batch in theirs]
    assert [batch.top1_hits for batch in ours] == [batch.top1_hits for batch in theirs]
    for mine, its in zip(ours, theirs, strict=True):
        for score, other in zip(mine.scores, its.scores, strict=True):
            assert score.affinity == pytest.approx(other.affinity, abs=1e-5)


def test_an_image_that_does_not_fit_alone_fails(monkeypatch):
    monkeypatch.setattr(jobs.runners.worker, "measure_batches", Scarce(0, MemoryError("no room")))
    events = events_of(job(size=32))
    assert (events[-1].stage, events[-1].message) == ("measure", "MemoryError: no room")
    assert [e.micro_batch for e in events if isinstance(e, Halved)] == [32, 16, 8, 4, 2, 1]


def test_other_errors_are_no_want_of_memory(monkeypatch):
    monkeypatch.setattr(
        jobs.runners.worker, "measure_batches", Scarce(0, RuntimeError("mat1 and mat2"))
    )
    assert [type(event) for event in events_of(job())] == [
        Started,
        BatchRecord,
        BatchRecord,
        Failed,
    ]


def test_a_precision_ends_a_job_early(whole, monkeypatch, overlap):
    monkeypatch.setattr("survey.settings.FEWEST_BATCHES", 3)
    planned = job()
    spread, scored = Spread(), batches_in(whole)[:-1]
    errors = []
    for batch in scored:
        spread.add((score.site, score.affinity) for score in batch.scores)
        errors.append(spread.standard_error)
    wanted = errors[4] * 1.0001
    settings = dataclasses.replace(planned.settings, precision=wanted, least_batches=3)
    stop = next(k for k in range(2, 7) if errors[k] <= wanted) + 1
    events = events_of(dataclasses.replace(planned, settings=settings))
    assert batches_in(events) == scored[:stop]
    assert isinstance(events[-1], Finished)
    # Going on after two batches that are known ends at the same place.
    known = Spread()
    for batch in scored[:2]:
        known.add((score.site, score.affinity) for score in batch.scores)
    shard = Shard(2, None, whole[2].end_position)
    rest = events_of(dataclasses.replace(planned, settings=settings), shard, spread=known)
    assert batches_in(rest) == scored[2:stop]


def test_a_deadline_fails_a_job_and_keeps_what_it_measured(overlap):
    events = events_of(job(size=32), deadline=1e-9)
    # Loading counts too.
    assert (events[-1].stage, [type(each) for each in events]) == ("load", [Failed])
    assert "deadline" in events[-1].message


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


def test_broken_images_are_counted_where_they_stand(tmp_path, overlap):
    broken = (0, 5, 40, 63, 64, 99)  # first, inside, around the end of a batch, and last
    folder = pictures(tmp_path / "pictures", broken, 100)
    events = events_of(job(dataset=f"folder:{folder}", size=32))
    batches = [event for event in events if isinstance(event, BatchRecord)]
    assert [event.batch.images for event in batches] == [32, 32, 30]
    skipped = [name for event in batches for name in event.skipped_names]
    skipped += events[-1].skipped_names
    assert len(skipped) == len(set(skipped)) == len(broken)
    reasons = {event.name: event.reason for event in events if isinstance(event, Skipped)}
    assert list(reasons) == skipped
    assert all(reasons.values())
    # A worker that begins with the last batch finds its first image, with the broken ones before.
    for position in (batches[1].end_position, None):
        rest = events_of(job(dataset=f"folder:{folder}", size=32), Shard(2, None, position))
        (last,) = (event for event in rest if isinstance(event, BatchRecord))
        assert last.skipped_names == batches[2].skipped_names
        assert rest[-1].skipped_names == events[-1].skipped_names
        assert batches_in(rest) == batches_in(batches[2:])


def test_a_score_of_the_whole_dataset_is_one_of_what_can_be_read(tmp_path):
    whole = events_of(job(dataset=f"folder:{pictures(tmp_path / 'whole', (7,), 33)}", size=33))
    (only,) = (event for event in whole if isinstance(event, BatchRecord))
    assert only.batch.images == 32
    assert all(score.affinity for score in only.batch.scores)
    assert isinstance(whole[-1], Finished)


def test_a_dataset_that_changes_under_a_scan_is_no_finished_run(tmp_path):
    folder = pictures(tmp_path / "pictures", (), 70)
    events = run_task(Task(job(dataset=f"folder:{folder}", size=32), 1), "cpu", 1)
    seen = [next(events), next(events)]
    (folder / "another.png").write_bytes((folder / "000.png").read_bytes())
    seen += events
    assert [type(event) for event in seen] == [Started, *[BatchRecord] * 3, Failed]
    assert "dataset changed" in seen[-1].message


def test_pictures_that_change_and_change_back_give_no_score(tmp_path, monkeypatch):
    folder = pictures(tmp_path / "pictures", (), 40)
    contents = {path: path.read_bytes() for path in folder.iterdir()}
    home = tmp_path / "home"
    planned = dataclasses.replace(job(dataset=f"folder:{folder}", size=32), home=home)

    def changing(*_):
        for path in contents:
            Image.new("RGB", (32, 32)).save(path)
        yield from ()

    def restored():
        for path, content in contents.items():
            path.write_bytes(content)

    monkeypatch.setattr(jobs.runners.worker, "network_measured", changing)
    assert [type(event) for event in events_of(planned)] == [Started, Failed]
    restored()
    monkeypatch.undo()
    right = batches_in(events_of(dataclasses.replace(planned, home=None)))
    assert batches_in(events_of(planned)) == right
    # The cache of pixels is whole now: it has what the files hold.
    assert batches_in(events_of(planned)) == right


def test_a_dataset_whose_files_only_look_otherwise_is_the_planned_one(tmp_path):
    folder = pictures(tmp_path / "pictures", (), 40)
    planned = job(dataset=f"folder:{folder}", size=32)
    # As on another machine, or after a change of rights.
    (folder / "000.png").touch()
    assert isinstance(events_of(planned)[-1], Finished)


def test_weights_that_vanish_or_change_after_the_plan_fail_their_job(tmp_path):
    file = tmp_path / "weights.pth"
    network = CifarSource().get("cifar_resnet8").build()
    torch.save(network.state_dict(), file)
    (planned,) = make_plan(declared(f"file:{file}"), {}, Holdings()).jobs
    torch.save(CifarSource().get("cifar_resnet8").build().state_dict(), file)
    (changed,) = events_of(planned)
    assert "checkpoint changed" in changed.message
    assert changed.changed_weights
    file.unlink()
    (gone,) = events_of(planned)
    assert isinstance(gone, Failed)
    assert str(file) in gone.message


def test_accuracy_is_that_of_the_outputs_that_the_file_has(tmp_path):
    images = tmp_path / "images"
    for number in range(40):
        pixels = np.full((32, 32, 3), 200 * (number % 2), dtype=np.uint8)
        place = images / "ab"[number % 2]
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(pixels).save(place / f"{number}.png")
    network = CifarSource().get("cifar_resnet8").build_with(2)
    # The second class, whatever the image.
    torch.nn.init.zeros_(network.linear.weight)
    network.linear.bias.data = torch.tensor([0.0, 1.0])
    state = network.state_dict()
    torch.save(state, tmp_path / "two.pth")
    torch.save({k: v for k, v in state.items() if "linear" not in k}, tmp_path / "none.pth")
    measured = {}
    for name in ("two", "none"):
        names = declared(f"file:{tmp_path / name}.pth", dataset=f"folder:{images}", size=16)
        (planned,) = make_plan(names, {}, Holdings()).jobs
        batches = batches_in(events_of(planned))
        measured[name] = tuple(
            sum(getattr(batch, count) or 0 for batch in batches)
            for count in ("labelled", "top1_hits")
        )
    assert measured == {"two": (40, 20), "none": (0, 0)}


def test_code_that_changed_after_the_plan_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    source = tmp_path / "changing_nets.py"
    source.write_text(
        "from torch import nn\n"
        "def net(): return nn.Sequential(nn.Flatten(), nn.Linear(192, 4), nn.ReLU())\n"
        "net.survey = {'size': 8}\n"
    )
    name = "python:changing_nets:net"
    trust(name)
    planned = job(model=name)
    assert isinstance(events_of(planned)[-1], Finished)
    source.write_text(source.read_text().replace("192, 4", "192, 5"))
    monkeypatch.delitem(sys.modules, "changing_nets")
    (failed,) = events_of(planned)
    assert failed.stage == "build"
    assert "changing_nets" not in sys.modules
    # Consent to the new content is none to measure it under the plan's id.
    trust(name)
    (failed,) = events_of(planned)
    assert "changed" in failed.message


@pytest.mark.parametrize(
    ("changes", "stage"),
    [
        ({"architecture": "cifar_resnet9"}, "build"),
        ({"dataset": "folder:gone"}, "data"),
        ({"checkpoint_sha256": "0" * 64}, "load"),
        ({"dataset_stat": "0" * 64, "dataset_fingerprint": "0" * 64}, "data"),
        ({"architecture": "digits_vgg7", "transform": InputTransform(2, 2)}, "load"),
    ],
)
def test_a_failure_has_its_stage(changes, stage):
    events = events_of(dataclasses.replace(job(), **changes))
    assert isinstance(events[-1], Failed)
    assert (events[-1].stage, bool(events[-1].message)) == (stage, True)
    assert "Traceback" in events[-1].traceback


class Mute(Exception):
    def __str__(self):
        raise ValueError("nothing to say")


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (Mute(), "Mute"),
        # What Python makes of a file's name that is no text.
        (RuntimeError("bad\udcff.png"), "RuntimeError: bad\\udcff.png"),
    ],
)
def test_whatever_a_network_raises_is_a_failure_that_stores_and_logs_can_hold(
    monkeypatch, tmp_path, error, message
):
    def raising(*_):
        raise error

    monkeypatch.setattr(jobs.runners.loading, "load_model", raising)
    (failed,) = events_of(job())
    assert (failed.stage, failed.message) == ("load", message)
    failed.traceback.encode()
    append(tmp_path, "r", described(failed))
    append(tmp_path, "r", "lost: bad\udcff.png")
    assert r"lost: bad\udcff.png" in read_log(tmp_path, "r")
    with pytest.raises(SettingsError, match="no log"):
        read_log(tmp_path, "other")


def test_normalising_is_torchvisions(tmp_path):
    pixels = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    transform = InputTransform(8, 8)
    mean, std = (torch.tensor(v)[:, None, None] for v in (transform.mean, transform.std))
    expected = (pixels.float() / 255 - mean) / std
    assert torch.allclose(normalise(pixels, transform), expected, atol=1e-6)
    floats = torch.randn(2, 3, 8, 8)
    assert normalise(floats, transform) is floats


def test_a_network_of_one_channel_takes_the_luma_of_colours():
    every = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    plain = InputTransform(16, 16, mean=(0.0,), std=(1.0,))
    assert torch.equal(normalise(every.expand(2, 3, 16, 16), plain)[:1], every.float() / 255)
    pixels = torch.randint(0, 256, (4, 3, 8, 8), dtype=torch.uint8)
    pictures = [Image.fromarray(each.permute(1, 2, 0).numpy()).convert("L") for each in pixels]
    luma = torch.stack([torch.from_numpy(np.array(each)) for each in pictures])[:, None]
    grey = InputTransform(8, 8, mean=(0.1,), std=(0.5,))
    expected = (luma.float() / 255 - 0.1) / 0.5
    # Pillow rounds to whole numbers.
    assert (normalise(pixels, grey) - expected).abs().max() <= 1 / 255 / 0.5


def test_freed_memory_is_kept_within_each_pass_alone(monkeypatch):
    seen = []

    @contextmanager
    def kept():
        seen.append("keep")
        yield
        seen.append("end")

    give = lambda: seen.append("give back")  # noqa: E731
    monkeypatch.setattr(jobs.runners.worker, "kept_memory", kept)
    monkeypatch.setattr(jobs.runners.worker, "return_freed_memory", give)
    # A pass for each batch of 32 images, and one for the partial one.
    events = events_of(job())
    passes = sum(isinstance(event, BatchRecord) for event in events)
    assert seen == ["keep", *["give back"] * passes, "end"]
