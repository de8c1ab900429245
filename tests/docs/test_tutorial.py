"""The tutorial's blocks, run in order in an empty folder as its reader would."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from analysis import signatures
from analysis.data.selection import Selection
from catalog.home import Home
from catalog.store.reader import query_rows
from tests.acceptance.command import ROOT

TUTORIAL = ROOT / "docs" / "tutorial.md"

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"Save this as `([\w.]+)`")


def blocks() -> Iterator[tuple[str, str]]:
    """Yield a file's name, or ``sh``, with the text of each block."""
    text, end = TUTORIAL.read_text(encoding="utf-8"), 0
    for block in _BLOCK.finditer(text):
        names = _FILE.findall(text[end : block.start()])
        yield (names[-1] if names else block[1]), block[2]
        end = block.end()


def last_run(home: Home) -> str:
    """Return the id of the run of the last checkpoint; empty before there is one."""
    if not home.signatures.is_file():
        return ""
    runs = query_rows(home, "SELECT run_id FROM runs WHERE checkpoint = 'file:exp/epoch_12.pth'")
    return str(runs[0]["run_id"]) if runs else ""


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """Return a folder with ``survey`` and ``python`` as an activated environment has them."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name, arguments in (("python", ""), ("survey", " -m jobs.cli.main")):
        (folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}"{arguments} "$@"\n')
        (folder / name).chmod(0o755)
    return folder


@pytest.mark.slow(seconds=60)
@pytest.mark.long
def test_every_block_runs(tmp_path: Path, commands: Path) -> None:
    folder = tmp_path / "empty"
    folder.mkdir()
    environment = {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
    }
    home = Home(folder / "survey-home")
    done = 0
    for name, text in blocks():
        if name != "sh":
            (folder / name).write_text(text, encoding="utf-8")
            continue
        ended = subprocess.run(
            ["sh", "-e"],
            input=text.replace("RUN", last_run(home)),
            cwd=folder,
            env=environment,
            text=True,
            capture_output=True,
            check=False,
        )
        assert ended.returncode == 0, f"{text}\n{ended.stdout}\n{ended.stderr}"
        done += 1
    assert done >= 6
    runs = query_rows(home, "SELECT checkpoint, measured_top1 FROM runs")
    measured = signatures(folder / "survey-home", Selection(untrained=True))
    epochs = measured["tags"].map(lambda tags: int(tags["epoch"]))
    means = measured["affinity"].groupby(epochs).mean()
    assert list(means.index) == [0, 1, 2, 3, 4, 6, 8, 10, 12]
    assert means[12] < means[0] - 0.01
    accuracies = {run["checkpoint"]: run["measured_top1"] for run in runs}
    assert len(accuracies) == 9
    assert accuracies["file:exp/epoch_12.pth"] > 0.9
    assert accuracies["init:0"] < 0.3
    assert (folder / "report" / "index.html").is_file()
    assert (folder / "checkpoints.svg").is_file()
    assert (folder / "trend.svg").is_file()
