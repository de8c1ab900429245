"""Running the command line as a user does: in a process of its own, with a home of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from typer.testing import CliRunner, Result

from catalog.open_home import open_home
from catalog.store.reader import query, run_states
from catalog.store.records import RunState
from jobs.cli.main import app
from tests.waiting import PATIENCE_SECONDS

#: What every process needs to find the product, wherever the tests are started from.
ROOT = Path(__file__).resolve().parents[2]

#: What a test started, which does not outlive it.
_STARTED: list[subprocess.Popen[str]] = []


def start(*arguments: str | Path, home: Path, **options: Any) -> subprocess.Popen[str]:
    """Start ``survey`` as ``launch`` does, for no longer than the test lasts."""
    _STARTED.append(launch(*arguments, home=home, **options))
    return _STARTED[-1]


def launch(
    *arguments: str | Path,
    home: Path,
    cwd: Path = ROOT,
    log: Path | None = None,
    **environment: str,
) -> subprocess.Popen[str]:
    """Start ``survey`` with a home, in a process group of its own; a log gets what it prints."""
    surroundings = {"SURVEY_HOME": str(home), "OMP_NUM_THREADS": "2", "PYTHONPATH": str(ROOT)}
    with log.open("ab") if log else nullcontext() as file:
        return subprocess.Popen(
            [sys.executable, "-m", "jobs.cli.main", *map(str, arguments)],
            cwd=cwd,
            env=os.environ | surroundings | environment,
            text=True,
            stdout=file or subprocess.PIPE,
            stderr=file or subprocess.PIPE,
            start_new_session=True,
        )


def end_started() -> None:
    """Kill what still runs of what was started, and of what that started in turn."""
    while _STARTED:
        end_group(_STARTED.pop())


def end_group(leader: subprocess.Popen[str]) -> None:
    """Kill the processes of a group, also those that outlive the one which leads it."""
    with leader:
        # Its number is nobody else's while one of the group lives: another's is another group.
        if leader.poll() is None or not Path(f"/proc/{leader.pid}").exists():
            with suppress(ProcessLookupError):
                os.killpg(leader.pid, signal.SIGKILL)


def survey(*arguments: str | Path, home: Path, code: int = 0) -> Result:
    """Run ``survey`` in this process, which spares importing torch again, and check its exit."""
    ended = CliRunner().invoke(
        app, [str(argument) for argument in arguments], env={"SURVEY_HOME": str(home)}
    )
    assert ended.exit_code == code, f"exit code {ended.exit_code}\n{ended.stdout}\n{ended.stderr}"
    return ended


def survey_process(
    *arguments: str | Path,
    home: Path,
    code: int = 0,
    timeout: float = PATIENCE_SECONDS,
    cwd: Path = ROOT,
) -> subprocess.CompletedProcess[str]:
    """Run ``survey`` to its end and hold its exit code against what is expected."""
    process = start(*arguments, home=home, cwd=cwd)
    try:
        out, err = process.communicate(timeout=timeout)
    except BaseException:
        end_group(process)
        raise
    assert process.returncode == code, f"exit code {process.returncode}\n{out}\n{err}"
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


#: Runs each command of its input, a JSON list a line, and answers in JSON.
_SERVING = """
import json, sys
from typer.testing import CliRunner
from jobs.cli.main import app
for line in sys.stdin:
    ended = CliRunner().invoke(app, json.loads(line))
    print(json.dumps([ended.exit_code, ended.stdout, ended.stderr]), flush=True)
"""


class SurveyProcess:
    """One process that runs ``survey`` again and again, which spares importing torch each time.

    Parameters
    ----------
    folder : Path
        Its working folder.
    home : Path
        The home of its commands.
    paths : str or Path
        Folders beside the product's to import from, as if what lies there were installed.
    """

    def __init__(self, folder: Path, home: Path, *paths: str | Path) -> None:
        imported = os.pathsep.join(map(str, (*paths, ROOT)))
        environment = {"SURVEY_HOME": str(home), "PYTHONPATH": imported, "OMP_NUM_THREADS": "1"}
        self._process = subprocess.Popen(
            [sys.executable, "-c", _SERVING],
            cwd=folder,
            env=os.environ | environment,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def __enter__(self) -> SurveyProcess:
        return self

    def __exit__(self, *exc: object) -> None:
        try:
            self._process.communicate(timeout=PATIENCE_SECONDS)
        finally:
            self._process.kill()

    def __call__(self, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        """Run ``survey`` with arguments and check its exit code."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{json.dumps(arguments)}\n")
        self._process.stdin.flush()
        ended, out, err = json.loads(self._process.stdout.readline())
        assert ended == code, f"exit code {ended}\n{out}\n{err}"
        return subprocess.CompletedProcess(arguments, ended, out, err)


def rows(sql: str, home: Path) -> list[dict[str, Any]]:
    """Ask the store in this process."""
    result: list[dict[str, Any]] = query(open_home(home, create=False), sql).to_pylist()
    return result


def asked(sql: str, home: Path) -> list[dict[str, Any]]:
    """Ask the store through the command line."""
    result: list[dict[str, Any]] = json.loads(
        survey_process("sql", sql, "--format", "json", home=home).stdout
    )
    return result


def until(
    condition: Callable[[dict[str, RunState]], Any], home: Path, process: subprocess.Popen[str]
) -> Any:
    """Wait until a scan's states meet a condition; fail if the scan ends first."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        if (home / "signatures.duckdb").exists():
            result = condition(run_states(open_home(home, create=False)))
            if result:
                return result
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    raise AssertionError("the scan never came to the point that was waited for")


def once(
    factory: pytest.TempPathFactory, worker_id: str, name: str, make: Callable[[Path], object]
) -> Path:
    """Return a home that is made once for all processes that share the tests; only read it."""
    base = factory.getbasetemp()
    place = base if worker_id == "master" else base.parent
    home, making = place / name, place / f"{name}.making"
    with FileLock(place / f"{name}.lock"):
        if not home.exists():
            make(making)
            making.rename(home)
    return home


def measured(home: Path) -> list[dict[str, Any]]:
    """Return every measured row, without what differs between two equal scans."""
    return rows(
        """SELECT b.* FROM batch_scores b ORDER BY run_id, batch, site""",
        home,
    )


def counted(home: Path) -> list[dict[str, Any]]:
    """Return every batch's counts and every run's accuracy."""
    return rows(
        """SELECT run_id, batch, b.images, b.labelled, b.top1_hits, b.top5_hits, b.end_position,
                  r.status, r.measured_top1, r.measured_top5
           FROM batches b JOIN runs r USING (run_id) ORDER BY run_id, batch""",
        home,
    )
