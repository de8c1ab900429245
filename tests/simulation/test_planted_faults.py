"""Simulations of the stores, the scan and the schedules, and faults that they must notice."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from catalog.home import Home
from catalog.open_home import open_home
from jobs.planning.holdings import Holdings
from jobs.planning.job import Job
from jobs.planning.plan import make_plan
from survey.errors import StoreError
from tests.jobs.jobs import declared
from tests.simulation import schedule_life
from tests.simulation.planting import FAULTS, Fault
from tests.simulation.scan_life import ScanLife
from tests.simulation.spool_life import SpoolLife

SEEDS = 50

#: How a fault shows: a promise is broken, a store refuses, or an attempt is not known.
NOTICED = (AssertionError, StoreError, KeyError)

Life = Callable[[Home, int], None]


@pytest.fixture(scope="module")
def jobs() -> list[Job]:
    return list(make_plan(declared("init:0", "init:1", "init:2"), {}, Holdings()).jobs)


@pytest.fixture(scope="module")
def lives(jobs: list[Job]) -> list[Life]:
    """Return the simulations, by which a seed is lived in an empty home."""
    return [
        lambda home, seed: SpoolLife(home, seed).live(),
        lambda home, seed: ScanLife(home, jobs, seed).live(),
        schedule_life.live,
    ]


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[], Home]:
    """Return a function that makes the same home empty again."""
    made = open_home(tmp_path / "empty", create=True)

    def empty() -> Home:
        shutil.rmtree(tmp_path / "home", ignore_errors=True)
        shutil.copytree(made.path, tmp_path / "home")
        return Home(tmp_path / "home")

    return empty


@pytest.mark.long
@pytest.mark.slow(seconds=300)
@pytest.mark.timeout(1800)
def test_nothing_is_noticed_where_nothing_is_wrong(fresh, lives):
    for seed in range(SEEDS):
        for life in lives:
            life(fresh(), seed)


@pytest.mark.long
@pytest.mark.slow(seconds=60)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_planted_fault_is_noticed(fault: Fault, fresh, lives, record_property):
    for seed in range(SEEDS):
        for life in lives:
            home, planted = fresh(), fault.planted()
            try:
                with planted:
                    life(home, seed)
            except NOTICED:
                record_property("seed", seed)
                return
    pytest.fail(f"{fault.name} is not noticed in {SEEDS} seeds")
