"""What campaigns brought up never comes again, and a short one of every target is clean."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from tests.fuzz.campaign import mutated
from tests.fuzz.seeds import kept, seeds
from tests.fuzz.targets import TARGETS, run

#: Each input starts a process.
APART = {"devkit"}


@pytest.mark.parametrize("name", TARGETS)
def test_right_files_and_those_kept_are_read_or_refused(name: str, tmp_path: Path) -> None:
    generator = random.Random(0)
    right = seeds(name)
    changed = (
        [] if name in APART else [mutated(right[n % len(right)], generator) for n in range(15)]
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for data in [*([] if name in APART else right), *kept(name), *changed]:
            run(TARGETS[name], data, tmp_path)


@pytest.mark.long
def test_a_short_campaign_brings_up_nothing(tmp_path: Path) -> None:
    names = sorted(TARGETS.keys() - APART)
    command = [sys.executable, "-m", "tests.fuzz.campaign", "3", *names, "--plain", "--here"]
    subprocess.run([*command, "--out", str(tmp_path)], check=True, timeout=300)
    tallies = [json.loads(line) for line in (tmp_path / "tally.jsonl").read_text().splitlines()]
    assert [tally["target"] for tally in tallies] == names
    assert [tally for tally in tallies if tally["findings"]] == []
