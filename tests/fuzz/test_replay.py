"""What campaigns brought up never comes again, and a short one of every target is clean."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.fuzz.mutation import mutated, mutated_document
from tests.fuzz.readers import TARGETS, kept, run

#: Those that start a process for each input.
APART = {name for name, target in TARGETS.items() if target.apart}


@pytest.mark.parametrize("name", TARGETS)
def test_right_files_and_those_kept_are_read_or_refused(name: str, tmp_path: Path) -> None:
    inputs = kept(name) if name in APART else [*kept(name), *_inputs(name)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for data in inputs:
            run(name, data, tmp_path)


def _inputs(name: str) -> list[bytes]:
    """Return a target's right inputs, and some changed ones."""
    right, generator = TARGETS[name].right(), random.Random(0)
    changed = [mutated(right[n % len(right)], generator, right) for n in range(15)]
    if TARGETS[name].document:
        changed += [mutated_document(right[n % len(right)], generator) for n in range(15)]
    return right + changed


@pytest.mark.long
def test_a_short_campaign_brings_up_nothing(tmp_path: Path) -> None:
    names = sorted(TARGETS.keys() - APART)
    command = [sys.executable, "-m", "tests.fuzz.campaign", "3", *names, "--plain", "--here"]
    subprocess.run([*command, "--out", str(tmp_path)], check=True, timeout=900)
    tallies = [json.loads(line) for line in (tmp_path / "tally.jsonl").read_text().splitlines()]
    assert [tally["target"] for tally in tallies] == names
    assert [tally for tally in tallies if tally["findings"]] == []
