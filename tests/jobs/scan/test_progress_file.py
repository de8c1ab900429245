"""What a scan writes for those who watch it: true after every event, whatever ends it."""

from __future__ import annotations

import io
import json
import re
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from catalog.home import Home
from catalog.models.base import RemoteFile
from catalog.store.records import BatchRecord
from jobs.planning.estimate import Estimate
from jobs.planning.holdings import Holdings
from jobs.planning.job import Job
from jobs.planning.plan import Plan, make_plan
from jobs.planning.worker_layout import Devices
from jobs.runners.events import Failed, Finished, Host, Lost, Measuring, Started
from jobs.scan import progress_display
from jobs.scan.download_file import read_download
from jobs.scan.progress_file import ProgressFile
from jobs.scan.reporter import Reporter
from jobs.scan.scan_progress import ScanProgress, as_json, read_progress, write_progress
from survey.errors import StoreError
from tests.catalog.records import batch
from tests.jobs.jobs import IMAGES, declared

HOSTS = [Host("cpu", "processor", 1, "machine", pid) for pid in (1, 2)]
JOBS = make_plan(declared("init:0", "init:1", "init:2"), {}, Holdings()).jobs
LONG, SHORT, HALF = JOBS


def began(each: Job, host: Host = HOSTS[0], attempt: int = 1) -> Started:
    return Started(each.run_id, attempt, host, 1, 1.0, ())


def measured(each: Job, number: int, attempt: int = 1) -> BatchRecord:
    scores = replace(batch(number), images=64)
    return BatchRecord(each.run_id, attempt, scores, 64 * (number + 1))


def failed(each: Job, stage: str = "load") -> Failed:
    return Failed(each.run_id, 1, stage, "no such file", None, "")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


@pytest.fixture
def scan(home: Home) -> ProgressFile:
    """Return the file of a scan of three jobs, the last of which is half done."""
    file = ProgressFile(home, Reporter())
    file.planned(Plan(JOBS, frozenset()))
    left = (Estimate(60.0, 1.0, IMAGES), Estimate(20.0, 1.0, IMAGES), Estimate(20.0, 1.0, 192))
    file.started(Devices("cpu", 2, 1), {each.run_id: e for each, e in zip(JOBS, left, strict=True)})
    return file


def written(file: ProgressFile, home: Home) -> ScanProgress:
    file._write()
    progress = read_progress(home.progress)
    assert progress is not None
    return progress


def test_work_counts_by_its_expected_time(scan: ProgressFile, home: Home) -> None:
    scan.event(LONG, began(LONG))
    scan.event(SHORT, began(SHORT, HOSTS[1]))
    for number in range(4):
        scan.event(LONG, measured(LONG, number))
    progress = written(scan, home)
    assert (progress.images, progress.total_images) == (256, 2 * IMAGES + 192)
    assert progress.fraction == pytest.approx(0.6 * 256 / IMAGES)
    assert [worker.images for worker in progress.working] == [256, 0]
    since = progress.measuring_since
    assert since is not None
    # Thirty seconds for that part: the whole takes 30 / fraction.
    left = progress.seconds_left(since + 30)
    assert left == pytest.approx(30 / progress.fraction - 30)
    assert progress.images_per_second(since + 30) == pytest.approx(256 / 30)
    # Once it has ended, the rate is that of its end.
    over = replace(progress, ended_at=since + 30)
    assert over.images_per_second(since + 3000) == pytest.approx(256 / 30)
    # A job that its precision ends early is done all the same.
    scan.event(LONG, Finished(LONG.run_id, 1))
    assert written(scan, home).fraction == pytest.approx(0.6)
    assert written(scan, home).done == 1


def test_measures_count_by_their_expected_time_before_the_images(home: Home) -> None:
    file = ProgressFile(home, Reporter())
    file.planned(Plan((LONG, SHORT), frozenset()))
    taken = {"path_length": 10.0, "nonlinearity_coefficient": 30.0}
    left = {LONG.run_id: Estimate(80.0, 1.0, IMAGES, taken), SHORT.run_id: Estimate(20.0, 1.0, 9)}
    file.started(Devices("cpu", 2, 1), left)
    file.event(LONG, began(LONG))
    for fraction, done in ((0.0, 0.1), (0.5, 0.25)):
        name = "nonlinearity_coefficient"
        file.event(LONG, Measuring(LONG.run_id, 1, name, fraction))
        progress = written(file, home)
        assert progress.fraction == pytest.approx(done)
        (worker,) = progress.working
        assert worker.measure == f"{name} {fraction:.0%}"
    file.event(LONG, measured(LONG, 0))
    progress = written(file, home)
    assert progress.fraction == pytest.approx(0.4 + 0.4 * 64 / IMAGES)
    # Another worker still computes it while this one has batches.
    file.event(LONG, Measuring(LONG.run_id, 1, name, 0.9))
    assert written(file, home).fraction == progress.fraction
    assert progress.working[0].measure == ""


def test_what_was_measured_before_is_shown_and_not_counted(scan: ProgressFile, home: Home) -> None:
    scan.event(HALF, began(HALF))
    scan.event(HALF, measured(HALF, 5))
    progress = written(scan, home)
    (worker,) = progress.working
    assert (worker.images, worker.own_images, progress.images) == (IMAGES - 192 + 64, 64, 64)
    assert progress.fraction == pytest.approx(0.2 * 64 / 192)


def test_workers_of_one_job_share_its_images_and_have_their_own(
    scan: ProgressFile, home: Home
) -> None:
    for host, attempt in zip(HOSTS, (1, 2), strict=True):
        scan.event(LONG, began(LONG, host, attempt))
    for number, attempt in enumerate((1, 2, 2)):
        scan.event(LONG, measured(LONG, number, attempt))
    working = written(scan, home).working
    assert [(each.images, each.own_images) for each in working] == [(192, 64), (192, 128)]


def test_a_lost_worker_is_gone_and_a_free_one_is_idle(scan: ProgressFile, home: Home) -> None:
    scan.event(LONG, began(LONG))
    scan.event(SHORT, began(SHORT, HOSTS[1]))
    scan.event(LONG, Lost(LONG.run_id, 1, "killed"))
    scan.event(SHORT, failed(SHORT))
    (worker,) = written(scan, home).working
    assert (worker.pid, worker.run_id) == (2, None)
    (failure,) = written(scan, home).failures
    assert (failure.run_id, failure.stage, failure.message) == (
        SHORT.run_id,
        "load",
        "no such file",
    )
    # What failed is over, too.
    assert written(scan, home).fraction == pytest.approx(0.2)
    scan.event(LONG, began(LONG, HOSTS[1], 2))
    scan.event(LONG, replace(failed(LONG, "worker"), attempt=2))
    assert written(scan, home).working == ()


def test_a_cancelled_job_is_over_and_its_workers_are_gone(scan: ProgressFile, home: Home) -> None:
    for host, attempt in zip(HOSTS, (1, 2), strict=True):
        scan.event(LONG, began(LONG, host, attempt))
    scan.event(SHORT, began(SHORT, replace(HOSTS[0], pid=3)))
    scan.withdrawn(LONG)
    progress = written(scan, home)
    assert [worker.run_id for worker in progress.working] == [SHORT.run_id]
    assert progress.fraction == pytest.approx(0.6)
    assert (progress.done, progress.failed) == (0, 0)


def test_a_job_that_is_planned_anew_has_the_images_and_the_time_of_its_own(home: Home) -> None:
    file, left = ProgressFile(home, Reporter()), {LONG.run_id: Estimate(60.0, 1.0, 192)}
    left[SHORT.run_id] = Estimate(40.0, 1.0, IMAGES)
    file.planned(Plan((LONG, SHORT), frozenset()))
    file.started(Devices("cpu", 2, 1), left)
    for host, attempt in zip(HOSTS, (1, 2), strict=True):
        file.event(LONG, began(LONG, host, attempt))
    # A part of it was measured, and the weights changed before the other was loaded.
    file.event(LONG, measured(LONG, 0))
    left[HALF.run_id] = Estimate(80.0, 1.0, IMAGES - 64)
    file.replaced(LONG, HALF)
    progress = written(file, home)
    assert (progress.images, progress.total_images) == (64, 64 + 2 * IMAGES - 64)
    assert progress.fraction == pytest.approx(20 / (20 + 80 + 40))
    assert (progress.jobs, progress.working) == (2, ())
    file.event(HALF, began(HALF))
    file.event(HALF, measured(HALF, 1))
    progress = written(file, home)
    assert [(each.images, each.total_images) for each in progress.working] == [(128, IMAGES)]
    assert progress.fraction == pytest.approx((20 + 80 * 64 / (IMAGES - 64)) / 140)
    file.event(HALF, Finished(HALF.run_id, 1))
    assert written(file, home).fraction == pytest.approx(100 / 140)
    # These weights were measured before.
    file.replaced(SHORT, None)
    progress = written(file, home)
    assert (progress.done, progress.jobs, progress.total_images) == (1, 1, IMAGES)
    assert progress.fraction == 1.0


def test_the_other_workers_of_a_job_that_failed_are_gone(scan: ProgressFile, home: Home) -> None:
    for host, attempt in zip(HOSTS, (1, 2), strict=True):
        scan.event(LONG, began(LONG, host, attempt))
    scan.event(LONG, failed(LONG))
    assert [(each.pid, each.run_id) for each in written(scan, home).working] == [(1, None)]


@pytest.mark.parametrize(
    ("error", "end", "code"),
    [
        (None, "done", None),
        (KeyboardInterrupt(), "interrupted", None),
        (StoreError("the disk is full"), "error", 3),
        (RuntimeError("broken"), "error", 1),
    ],
)
def test_every_end_is_written(
    home: Home, error: BaseException | None, end: str, code: int | None
) -> None:
    file = ProgressFile(home, Reporter())
    # What is raised goes on.
    with pytest.raises(type(error)) if error else nullcontext(), file:
        file.planned(Plan((), frozenset({"r1"})))
        if error:
            raise error
    progress = read_progress(home.progress)
    assert progress is not None
    assert (progress.end, progress.error_code, progress.measured_before) == (end, code, 1)
    assert progress.ended_at is not None
    assert progress.ended_at >= progress.began_at


def test_failures_and_missing_files_decide_the_end(scan: ProgressFile, home: Home) -> None:
    with scan:
        scan.event(LONG, began(LONG))
        scan.event(LONG, failed(LONG))
    progress = read_progress(home.progress)
    assert progress is not None
    assert progress.end == "failed"


def test_a_scan_that_never_held_the_home_writes_nothing(home: Home) -> None:
    with pytest.raises(StoreError), ProgressFile(home, Reporter()):
        raise StoreError("another scan is writing")
    assert not home.progress.exists()


def test_what_cannot_be_written_stops_nothing(tmp_path: Path) -> None:
    file = ProgressFile(Home(tmp_path / "none"), Reporter())
    with file:
        file.planned(Plan(JOBS, frozenset()))


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"failures": [], "working": [], "a": 1}'])
def test_a_file_of_another_version_is_none(home: Home, text: str) -> None:
    home.progress.write_text(text)
    assert read_progress(home.progress) is None


def test_any_title_is_kept_on_one_line(scan: ProgressFile, home: Home) -> None:
    scan.event(LONG, began(LONG))
    progress = written(scan, home)
    line = as_json(progress)
    assert "\n" not in line
    assert json.loads(line)["working"][0]["title"] == LONG.title


def test_a_failure_that_names_a_file_of_no_text_is_read(scan: ProgressFile, home: Home) -> None:
    scan.event(LONG, replace(failed(LONG), message="no file \udcff.pth"))
    write_progress(home.progress, written(scan, home))
    progress = read_progress(home.progress)
    assert progress is not None
    assert progress.failures[-1].message == "no file ?.pth"


def test_downloads_have_a_file_until_the_jobs_are_known(home: Home) -> None:
    file = ProgressFile(home, Reporter())
    for here in (0, 100):
        file.fetching(RemoteFile.at("https://example.org/net.pth"), here, 400)
    file._write()
    download = read_download(home.downloads, time.time())
    assert download is not None
    assert (download.file, download.bytes, download.total_bytes) == ("net.pth", 100, 400)
    assert download.bytes_before == 0
    assert not home.progress.exists()
    file.planned(Plan((), frozenset()))
    file._write()
    assert not home.downloads.exists()


@pytest.mark.parametrize("bars", [False, True])
def test_a_display_counts_the_batches_of_all_workers(
    monkeypatch: pytest.MonkeyPatch, bars: bool
) -> None:
    monkeypatch.setattr(progress_display, "PLAIN_INTERVAL_SECONDS", 0.0)
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=bars, width=120, color_system=None)
    with progress_display.progress_reporter(console) as reporter:
        left = Estimate(60.0, 1.0, IMAGES), Estimate(20.0, 1.0, 192)
        reporter.started(Devices("cpu", 2, 1), {LONG.run_id: left[0], HALF.run_id: left[1]})
        for attempt, host in enumerate(HOSTS, 1):
            reporter.event(LONG, began(LONG, host, attempt))
        # The second worker has the last batches; a batch that comes again is counted once.
        for number, attempt in ((6, 2), (0, 1), (0, 1)):
            reporter.event(LONG, measured(LONG, number, attempt))
        reporter.event(HALF, began(HALF, replace(HOSTS[0], pid=3)))
        reporter.event(HALF, measured(HALF, 5))
    shown = re.findall(r"(\d)(?:/| of )8", stream.getvalue())
    assert set(shown) - {"0"} == {"1", "2", "6"}


@pytest.mark.parametrize("bars", [False, True])
def test_a_display_counts_a_cancelled_job_as_over(bars: bool) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=bars, width=120, color_system=None)
    with progress_display.progress_reporter(console) as reporter:
        reporter.planned(Plan(JOBS, frozenset()))
        for attempt, host in enumerate(HOSTS, 1):
            reporter.event(LONG, began(LONG, host, attempt))
        reporter.withdrawn(LONG)
        if isinstance(reporter, progress_display._Bars):
            # Of the workers none is left.
            (whole,) = reporter._bars.tasks
            assert (whole.completed, whole.total) == (1, 3)
    assert bars or "[1/3" in stream.getvalue().splitlines()[-1]


@pytest.mark.parametrize(("by", "over"), [(None, 1), (SHORT, 0)])
def test_the_bars_of_a_job_that_is_planned_anew_are_gone(by: Job | None, over: int) -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with progress_display.progress_reporter(console) as reporter:
        assert isinstance(reporter, progress_display._Bars)
        reporter.planned(Plan(JOBS, frozenset()))
        for attempt, host in enumerate(HOSTS, 1):
            reporter.event(LONG, began(LONG, host, attempt))
        reporter.replaced(LONG, by)
        (whole,) = reporter._bars.tasks
        assert whole.completed == over


def test_the_bars_of_the_other_workers_of_a_job_that_failed_are_gone() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, width=120)
    with progress_display.progress_reporter(console) as reporter:
        assert isinstance(reporter, progress_display._Bars)
        for attempt, host in enumerate(HOSTS, 1):
            reporter.event(LONG, began(LONG, host, attempt))
        reporter.event(LONG, failed(LONG))
        assert list(reporter._lines) == [HOSTS[0]]
        reporter.event(SHORT, began(SHORT))
        reporter.event(SHORT, failed(SHORT, "worker"))
        assert list(reporter._lines) == []
