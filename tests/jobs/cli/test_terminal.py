"""What commands say: names of others are shown, and never obeyed by a terminal."""

from __future__ import annotations

import ast
import errno
import gc
import io
import logging
import os
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from catalog.models.base import RemoteFile
from jobs.cli import terminal
from jobs.cli.main import main
from jobs.cli.terminal import complain, make_streams_safe, say
from jobs.scan.progress_display import progress_reporter
from tests.jobs.cli.streams import Terminal
from tests.style.repository import ROOT

#: Colours the rest red, clears the screen, turns the direction, ends the line and forges another.
HOSTILE = "a\x1b[31m\x9b2J\u202e\r\ndone: all\u2028\x00"

SHOWN = r"a\x1b[31m\x9b2J\u202e\r\ndone: all\u2028\x00"


def test_a_line_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    say(HOSTILE)
    say(HOSTILE, err=False)
    complain(HOSTILE, HOSTILE)
    out, err = capsys.readouterr()
    assert out == f"{SHOWN}\n"
    assert err == f"{SHOWN}\nerror: {SHOWN}\nhint: {SHOWN}\n"


def test_no_value_of_a_user_fills_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    complain("x" * 100_000, "y" * 100_000)
    complain("x" * 100_000 + "\nlast", None, lines=True)
    lines = capsys.readouterr().err.splitlines()
    assert lines[-1] == "last"
    assert max(map(len, lines)) < 2_100


@pytest.mark.parametrize("bars", [False, True])
def test_progress_shows_names_as_they_are(bars: bool) -> None:
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=bars, width=200, color_system=None)
    file = RemoteFile(name=HOSTILE, url="https://example.org/a")
    with progress_reporter(console) as reporter:
        reporter.fetching(file, 10**6, 2 * 10**6)
        reporter.warned(HOSTILE)
    shown = stream.getvalue()
    assert shown.count(SHOWN) >= 2
    assert not [each for each in ("\x1b[31m", "\x9b", "\u202e", "\ndone") if each in shown]


@pytest.mark.parametrize(
    ("stream", "environment", "bars"),
    [
        (Terminal(), {"TERM": "xterm"}, True),
        (Terminal(), {"TERM": "dumb"}, False),
        (Terminal(), {"TERM": "unknown"}, False),
        (io.StringIO(), {"TERM": "xterm", "FORCE_COLOR": "1"}, False),
    ],
)
def test_bars_are_for_terminals_that_can_show_them(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, environment: dict[str, str], bars: bool
) -> None:
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with progress_reporter() as reporter:
        reporter.fetching(RemoteFile(name="weights", url="https://example.org/a"), 10**6, 10**7)
    shown = stream.getvalue()
    assert "weights" in shown
    assert ("\x1b" in shown) is bars


@pytest.mark.parametrize(
    ("environment", "coloured"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "dumb"}, False),
    ],
)
def test_an_error_is_coloured_where_a_user_wants_it(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], coloured: bool
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "stderr", stream := Terminal())
    complain("a", None)
    assert ("\x1b[31m" in stream.getvalue()) is coloured


def test_a_stream_that_lacks_a_character_does_not_end_the_program(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="latin-1"))
    monkeypatch.setattr(logging, "lastResort", logging.StreamHandler(io.StringIO()))
    make_streams_safe()
    say("\u0394", err=False)
    sys.stdout.flush()
    assert written.getvalue() == b"\\u0394\n"


def test_a_logged_name_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    handler = logging.StreamHandler(stream := io.StringIO())
    monkeypatch.setattr(logging, "lastResort", handler)
    make_streams_safe()
    handler.handle(logging.LogRecord("a", logging.WARNING, "", 0, "%s", ("\x1b[31m",), None))
    assert stream.getvalue() == "\\x1b[31m\n"


class _FullDisk(io.FileIO):
    def write(self, _: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


class _GoneTerminal(_FullDisk):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("bars", [False, True])
def test_a_standard_error_that_cannot_be_written_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bars: bool
) -> None:
    raw = (_GoneTerminal if bars else _FullDisk)(tmp_path / "log", "w")
    with io.TextIOWrapper(raw, write_through=True) as stream:
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.setenv("TERM", "xterm")
        file = RemoteFile(name="a", url="https://example.org/a")
        for _ in range(2):
            say("a")
            complain("a", "b")
            with progress_reporter() as reporter:
                reporter.fetching(file, 10**6, 2 * 10**6)
                reporter.warned("a")
        # What still writes to the file, such as another library, ends nothing either.
        assert os.path.samestat(os.fstat(stream.fileno()), Path(os.devnull).stat())


@pytest.mark.slow(seconds=4)
@pytest.mark.parametrize(
    ("closed", "verb", "code"),
    [
        ("<&-", ("sql",), 2),
        (">&-", ("datasets",), 0),
        ("2>&-", ("fetch", "-m", "small:digits_vgg7"), 0),
    ],
)
def test_a_closed_stream_ends_nothing(
    tmp_path: Path, closed: str, verb: tuple[str, ...], code: int
) -> None:
    shell = ("sh", "-c", f'exec "$0" "$@" {closed}', sys.executable, "-m", "jobs.cli.main")
    command = (*shell, "--home", str(tmp_path / "home"), *verb)
    assert subprocess.run(command, capture_output=True, check=False, cwd=ROOT).returncode == code


@pytest.mark.parametrize("option", ["--version", "--help"])
def test_a_text_that_cannot_be_written_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    monkeypatch.setattr(sys, "argv", ["survey", option])
    monkeypatch.setattr(gc, "set_threshold", lambda _: None)
    with io.TextIOWrapper(_FullDisk(tmp_path / "out", "w"), write_through=True) as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        with pytest.raises(SystemExit) as ended:
            main()
    assert ended.value.code == 2
    assert capsys.readouterr().err.startswith("error:")


def test_commands_write_through_one_door() -> None:
    doors = {terminal.__name__, "jobs.cli.output"}
    others = []
    for path in (ROOT / "jobs").rglob("*.py"):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        calls = (each for each in ast.walk(ast.parse(path.read_text())) if module not in doors)
        others += [
            f"{module}:{each.lineno}"
            for each in calls
            if isinstance(each, ast.Attribute) and each.attr in ("echo", "secho", "print_exception")
        ]
    assert not others


@pytest.mark.slow(seconds=8)
def test_a_scan_goes_on_when_nobody_reads_its_progress(tmp_path: Path) -> None:
    options = ("--home", tmp_path / "home", "run", "-m", "small:cifar_resnet8", "--runner", "local")
    checkpoints = [part for seed in range(4) for part in ("-c", f"init:{seed}")]
    command = [sys.executable, "-m", "jobs.cli.main", *map(str, options), *checkpoints]
    with subprocess.Popen(
        [*command, "--limit", "32", "--images-per-score", "32"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        assert process.stdout is not None
        process.stderr.readline()
        process.stderr.close()
        written = process.stdout.read()
    assert process.returncode == 0
    assert written.count(" done ") == 4
