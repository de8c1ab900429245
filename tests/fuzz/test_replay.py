"""What campaigns brought up never comes again, and a short one of every target is clean."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies

from tests.fuzz.mutation import mutated, mutated_document
from tests.fuzz.readers import TARGETS, kept, run

#: Those that start a process for each input.
APART = {name for name, target in TARGETS.items() if target.apart}


@pytest.mark.parametrize("name", TARGETS)
def test_right_files_and_those_kept_are_read_or_refused(name: str, tmp_path: Path) -> None:
    right = TARGETS[name].right()
    for data in kept(name) + (right[:1] if name in APART else right):
        _read(name, data, tmp_path)


@pytest.mark.parametrize("name", sorted(TARGETS.keys() - APART))
def test_changed_files_are_read_or_refused(name: str, tmp_path: Path) -> None:
    right = TARGETS[name].right()

    # The same files each time: campaigns look for others.
    @settings(max_examples=30, derandomize=True, database=None, deadline=None)
    @given(strategies.sampled_from(right), strategies.randoms(), strategies.booleans())
    def read(data: bytes, generator: random.Random, whole: bool) -> None:
        if whole and TARGETS[name].document:
            _read(name, mutated_document(data, generator), tmp_path)
        else:
            _read(name, mutated(data, generator, right), tmp_path)

    read()


def _read(name: str, data: bytes, folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run(name, data, folder)


@pytest.mark.long
@pytest.mark.slow(seconds=150)
def test_a_short_campaign_brings_up_nothing(tmp_path: Path) -> None:
    names = sorted(TARGETS.keys() - APART)
    command = [sys.executable, "-m", "tests.fuzz.campaign", "3", *names, "--plain", "--here"]
    subprocess.run([*command, "--out", str(tmp_path)], check=True, timeout=900)
    tallies = [json.loads(line) for line in (tmp_path / "tally.jsonl").read_text().splitlines()]
    assert [tally["target"] for tally in tallies] == names
    assert [tally for tally in tallies if tally["findings"]] == []
