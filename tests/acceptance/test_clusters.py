"""A cluster of several machines: every worker its own device, and losses that leave no trace."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
import ray
from filelock import FileLock
from ray.cluster_utils import Cluster

from catalog.home import Home
from catalog.registry import Registry
from tests.acceptance.command import rows, start, survey_process, until
from tests.acceptance.test_faults import assert_same

#: Four networks with three sets of weights each on two selections of the digits: 24 jobs.
SURVEY = (
    *("run", "-m", "small:digits_vgg7", "-m", "small:digits_vgg9"),
    *("-m", "small:digits_plain14", "-m", "small:digits_resnet14"),
    *("-c", "bundled", "-c", "init:1", "-c", "init:2"),
    *("-d", "digits:heldout", "-d", "digits:heldout[:200 stratified]"),
    *("--batch-size", "32", "--threads", "1"),
)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The survey measured by a single process, once for all processes that share the tests."""
    own = tmp_path_factory.getbasetemp()
    place = own if worker_id == "master" else own.parent
    home, making = place / "alone", place / "alone.making"
    with FileLock(place / "alone.lock"):
        if not home.exists():
            survey_process(*SURVEY, "--runner", "local", home=making)
            making.rename(home)
    return home


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three machines with four GPUs, all on this one."""
    found = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 2, "num_gpus": 2, "node_ip_address": "127.0.0.1"},
    )
    for _ in range(2):
        found.add_node(num_cpus=2, num_gpus=1, node_ip_address="127.0.0.1")
    found.wait_for_nodes()
    yield found
    found.shutdown()
    ray.shutdown()


def started(home: Path) -> dict[int, str]:
    """Return the machine and process of each attempt under way."""
    registry = Registry(Home.open(home, create=False))
    running = [job for job in registry.jobs() if job.state == "running"]
    return {
        attempt.pid: attempt.worker
        for job in running
        for attempt in registry.attempts(job.key)
        if attempt.ended_at is None and attempt.pid is not None
    }


def some_done(states):
    """True when a few runs are done and others are not."""
    return 3 <= sum(state.status == "done" for state in states.values()) < len(states)


@pytest.mark.slow
@pytest.mark.ray
def test_a_machine_a_worker_and_the_driver_are_lost(tmp_path, alone, cluster):
    home = tmp_path / "home"
    on_it = (*SURVEY, "--address", cluster.address, "--allow-cpu-for-gpu")
    scan = start(*on_it, home=home)
    until(some_done, home, scan)
    # Every worker has its device to itself.
    devices = until(lambda _: len(started(home)) == 4 and started(home), home, scan)
    assert len(devices) == 4
    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    os.kill(next(iter(started(home))), signal.SIGKILL)
    until(lambda states: sum(s.status == "done" for s in states.values()) >= 9, home, scan)
    os.kill(scan.pid, signal.SIGKILL)
    scan.communicate()
    ended = survey_process(*on_it, home=home)
    assert "already measured and skipped" in ended.stderr
    assert_same(home, alone)
    assert rows("SELECT count(*) AS n FROM runs WHERE status = 'done'", home) == [{"n": 24}]
    outcomes = rows("SELECT max(attempt) AS most FROM runs", home)
    assert outcomes[0]["most"] >= 2


@pytest.mark.ray
def test_a_gpu_that_torch_does_not_see_is_refused(tmp_path, cluster):
    home = tmp_path / "home"
    ended = survey_process(*SURVEY, "--address", cluster.address, home=home, code=3)
    assert "torch sees none" in ended.stderr
    assert "--device cpu" in ended.stderr
