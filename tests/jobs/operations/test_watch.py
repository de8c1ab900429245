"""Watching: what is waited for, what ends it, and a screen that fits every terminal."""

from __future__ import annotations

import dataclasses
import io
import json
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console
from typer.testing import CliRunner, Result

from catalog.home import Home
from catalog.open_home import open_home
from catalog.store.writer import Writer
from catalog.store.writer_lock import own_process
from jobs.cli.main import app
from jobs.cli.status import exit_code
from jobs.operations import watch as watching
from jobs.operations.watch import LAST_WORD_SECONDS, Look, look_at, watch
from jobs.operations.watch_screen import json_line, plain_line, screen
from jobs.scan.download_file import STALE_SECONDS, DownloadProgress
from jobs.scan.scan_progress import (
    JobFailure,
    ScanProgress,
    WorkerProgress,
    read_progress,
    write_progress,
)
from survey.errors import SettingsError
from tests.catalog.homes import new_home
from tests.jobs.cli.streams import Terminal


class Clock:
    """Time that passes while others sleep, and what happens then."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.then: list[Callable[[], object]] = []

    def time(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        if self.then:
            self.then.pop(0)()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(watching, "time", clock)
    return clock


def write(home: Home, progress: ScanProgress) -> None:
    write_progress(home.progress, progress)


def states(looks: Iterator[Look]) -> list[str]:
    return [look.state for look in looks]


def command(*arguments: str, home: Path) -> Result:
    return CliRunner().invoke(app, [*arguments, "--home", str(home)], catch_exceptions=False)


SCAN = ScanProgress(own_process(), began_at=1001.0, jobs=2, measured_before=0)


def test_a_home_and_a_scan_are_waited_for_until_the_scan_ends(tmp_path: Path, clock: Clock) -> None:
    place = tmp_path / "home"
    home = Home(place)
    writers: list[Writer] = []

    def begin() -> None:
        writers.append(Writer.open(open_home(place, create=True)))
        write(home, SCAN)

    def end() -> None:
        # The lock goes first, the last word comes after.
        writers.pop().close()

    clock.then = [
        begin,
        end,
        lambda: write(home, dataclasses.replace(SCAN, ended_at=clock.now, end="failed")),
    ]
    looks = list(watch(place, 1.0))
    assert [look.state for look in looks] == ["waiting", "running", "running", "ended"]
    assert exit_code(looks[-1]) == 1


def test_a_killed_scan_is_given_time_for_its_last_word(tmp_path: Path, clock: Clock) -> None:
    home = new_home(tmp_path / "home")
    writer = Writer.open(home)
    write(home, SCAN)
    clock.then = [writer.close]
    looks = list(watch(home.path, 1.0))
    assert [look.state for look in looks[-2:]] == ["running", "killed"]
    assert looks[-1].at - 1001.0 > LAST_WORD_SECONDS
    assert exit_code(looks[-1]) == 130


def test_a_killed_scan_does_not_run_while_another_process_writes(
    tmp_path: Path, clock: Clock
) -> None:
    home = new_home(tmp_path / "home")
    write(home, dataclasses.replace(SCAN, process="1 on another", began_at=800.0))
    with Writer.open(home):
        assert look_at(home).state == "killed"
        clock.then = [
            lambda: None,
            lambda: write(home, SCAN),
            lambda: write(home, dataclasses.replace(SCAN, ended_at=1003.0, end="done")),
        ]
        assert states(watch(home.path, 1.0)) == ["waiting", "waiting", "running", "ended"]
        # Whoever has the lock without a note may be the scan.
        write(home, SCAN)
        home.writer_note.write_text("")
        assert look_at(home).state == "running"


@pytest.mark.parametrize("end", [None, "done"])
def test_a_scan_of_yesterday_is_not_watched(tmp_path: Path, clock: Clock, end: str | None) -> None:
    home = new_home(tmp_path / "home")
    ended = {"ended_at": 900.0, "end": end} if end else {}
    write(home, dataclasses.replace(SCAN, began_at=800.0, **ended))  # type: ignore[arg-type]
    later = dataclasses.replace(SCAN, ended_at=1002.0, end="done")
    clock.then = [lambda: None, lambda: write(home, later)]
    assert states(watch(home.path, 1.0)) == ["waiting", "waiting", "ended"]


def test_watching_takes_no_lock_before_a_scan_should_hold_it(
    tmp_path: Path, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A scan that begins while its lock is looked at would be refused its home."""
    home = new_home(tmp_path / "home")
    monkeypatch.setattr(watching, "is_writing", lambda *_: pytest.fail("asked for the lock"))
    looks = watch(home.path, 1.0)
    assert next(looks).state == "waiting"
    write(home, dataclasses.replace(SCAN, ended_at=900.0, end="done"))
    assert next(looks).state == "waiting"
    assert clock.now == 1001.0


def test_a_home_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SettingsError, match="cannot be read"):
        next(watch(tmp_path / "file" / "home", 1.0))


def test_downloads_are_shown_while_their_process_is_there(tmp_path: Path, clock: Clock) -> None:
    home = new_home(tmp_path / "home")
    clock.then = [
        lambda: write_progress(home.downloads, dataclasses.replace(DOWNLOAD, at=clock.now)),
        *[lambda: None] * int(STALE_SECONDS),
        lambda: write(home, dataclasses.replace(SCAN, ended_at=clock.now, end="done")),
    ]
    seen = states(watch(home.path, 1.0))
    assert seen == ["waiting", *["fetching"] * (int(STALE_SECONDS) + 1), "ended"]


HOSTILE = "\x1b[31m\u202e\n"
LONG = f"file:/data/someone/{'deep/' * 30}seed0/epoch_30.pth"
BUSY = dataclasses.replace(
    SCAN,
    failed=9,
    failures=tuple(
        JobFailure(f"r{n}", f"timm:a{HOSTILE} / {LONG} / digits", "load", f"{HOSTILE}lacks " * 40)
        for n in range(9)
    ),
    total_images=5000,
    images=1500,
    fraction=0.3,
    measuring_since=1010.0,
    recent_since=1010.0,
    recent_images=1500,
    workers=60,
    device="cpu",
    threads=1,
    working=tuple(
        WorkerProgress("host", n, "processor", "r", f"small:net{n} / {LONG} / digits", 64, 128)
        for n in range(60)
    ),
)


DOWNLOAD = DownloadProgress("1 on host", f"net{HOSTILE}.pth", 1000.0, 1000, 1010.0, 3000, 9000)


def test_a_download_is_written_with_its_speed_and_the_time_left() -> None:
    look = Look("fetching", 1010.0, None, DOWNLOAD)
    values = json.loads(json_line(look))
    assert (values["state"], values["bytes"], values["total_bytes"]) == ("fetching", 3000, 9000)
    assert values["bytes_per_second"] == pytest.approx(200.0)
    line = plain_line(look)
    assert line.isprintable()
    assert line.endswith("3 kB of 9 kB; 200 bytes a second; about 30 s left")


@pytest.mark.parametrize("width", [20, 40, 60, 80, 120, 200])
@pytest.mark.parametrize("state", ["waiting", "fetching", "running", "ended", "killed"])
def test_the_screen_fits_the_terminal_and_obeys_no_name(width: int, state: str) -> None:
    stream = io.StringIO()
    console = Console(file=stream, width=width, force_terminal=False, highlight=False)
    progress = (
        dataclasses.replace(BUSY, ended_at=1110.0, end="failed") if state == "ended" else BUSY
    )
    home = Path(f"/data/{HOSTILE}/{'deep/' * 50}home")
    look = Look(state, 1110.0, progress, DOWNLOAD if state == "fetching" else None)  # type: ignore[arg-type]
    console.print(screen(home, look, width))
    lines = stream.getvalue().splitlines()
    assert max(map(cell_len, lines)) <= width
    assert all(each.isprintable() for line in lines for each in line)
    if state == "running" and width >= 60:
        text = "\n".join(lines)
        # What went wrong comes first, and the names that tell jobs apart are whole.
        assert text.index("failed") < text.index("30%") < text.index("15 a second")
        assert "about 4 min left" in text
        assert "6 more" in text
        assert "small:net59" in text or width < 80
        assert "epoch_30.pth" in text or width < 120


@pytest.mark.parametrize(
    ("ended_at", "shown"),
    [(86_400.0, "1970-01-02 00:00 UTC"), (1e11 - 1, "5138-11-16 09:46 UTC"), (1e11, None)],
)
def test_the_end_of_a_scan_has_its_time(tmp_path: Path, ended_at: float, shown: str | None) -> None:
    write_progress(tmp_path / "end", dataclasses.replace(BUSY, ended_at=ended_at, end="done"))
    over = read_progress(tmp_path / "end")
    assert (shown is None) == (over is None)
    assert over is None or str(shown) in plain_line(Look("ended", ended_at, over))


def watched(monkeypatch: pytest.MonkeyPatch, home: Path, looks: Iterator[Look]) -> tuple[int, str]:
    """Return the exit code of watching on a terminal, and what that shows."""
    monkeypatch.setattr(watching, "watch", lambda *_: looks)
    monkeypatch.setattr(sys, "stdout", stream := Terminal())
    with pytest.raises(SystemExit) as ended:
        app(["status", "--watch", "--home", str(home)])
    assert isinstance(ended.value.code, int)
    return ended.value.code, stream.getvalue()


def test_a_terminated_watch_gives_the_terminal_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def terminated() -> Iterator[Look]:
        yield Look("waiting", 5.0, None)
        signal.raise_signal(signal.SIGTERM)
        yield Look("ended", 6.0, dataclasses.replace(SCAN, ended_at=6.0, end="done"))

    monkeypatch.setenv("TERM", "xterm")
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    try:
        code, shown = watched(monkeypatch, tmp_path, terminated())
    finally:
        signal.signal(signal.SIGTERM, before)
    assert code == 130
    for hidden, restored in (("\x1b[?1049h", "\x1b[?1049l"), ("\x1b[?25l", "\x1b[?25h")):
        assert -1 < shown.rfind(hidden) < shown.rfind(restored)


def test_a_terminal_without_a_cursor_gets_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look = Look("ended", 6.0, dataclasses.replace(SCAN, ended_at=6.0, end="done"))
    monkeypatch.setenv("TERM", "dumb")
    assert watched(monkeypatch, tmp_path, iter([look])) == (0, f"{plain_line(look)}\n")


def test_a_line_of_json_holds_what_the_screen_shows() -> None:
    line = json_line(Look("running", 1110.0, BUSY))
    values = json.loads(line)
    assert "\n" not in line
    assert values["images_per_second"] == pytest.approx(15.0)
    assert values["seconds_left"] == pytest.approx(100 / 0.3 - 100)
    assert (values["state"], values["images"], len(values["working"])) == ("running", 1500, 60)
    assert json.loads(json_line(Look("waiting", 5.0, None))) == {"state": "waiting", "at": 5.0}
    assert plain_line(Look("running", 1110.0, BUSY)).startswith("30%; 0 of 2 jobs, 9 failed; 1,500")


@pytest.mark.parametrize(
    ("end", "code"), [("done", 0), ("failed", 1), ("interrupted", 130), ("error", 3)]
)
def test_watching_ends_as_the_scan_does(tmp_path: Path, end: str, code: int) -> None:
    home = new_home(tmp_path / "home")
    ended = dataclasses.replace(SCAN, ended_at=time.time() + 60, end=end, error_code=3)  # type: ignore[arg-type]
    write(home, ended)
    done = command("status", "--watch", "--json", home=home.path)
    assert done.exit_code == code
    (line,) = done.stdout.splitlines()
    assert json.loads(line)["end"] == end


def test_other_formats_are_refused(tmp_path: Path) -> None:
    refused = command("status", "--watch", "--format", "csv", home=tmp_path)
    assert refused.exit_code == 2
    assert "--watch excludes" in refused.stderr
