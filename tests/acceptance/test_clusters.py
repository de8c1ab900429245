"""A cluster of several machines: every worker its own device, and losses that leave no trace."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray.cluster_utils import Cluster

from catalog.open_home import open_home
from catalog.registry.registry import Registry
from tests.acceptance.command import once, rows, start, survey, survey_process, until
from tests.acceptance.test_faults import assert_same

#: Four networks with three sets of weights each on two selections of the digits: 24 jobs of a
#: second or two, so that all workers are at work before the jobs run out.
SURVEY = (
    *("run", "-m", "small:digits_vgg7", "-m", "small:digits_vgg9"),
    *("-m", "small:digits_plain14", "-m", "small:digits_resnet14"),
    *("-c", "bundled", "-c", "init:1", "-c", "init:2"),
    *("-d", "digits", "-d", "digits:train"),
    *("--images-per-score", "32", "--threads", "1"),
)


@pytest.fixture(scope="session")
def alone(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """The survey measured by a single process, once for all processes that share the tests."""
    return once(
        *(tmp_path_factory, worker_id, "alone"),
        lambda home: survey(*SURVEY, "--runner", "local", home=home),
    )


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Three machines with four GPUs, all on this one."""
    yield from machines(2, 1, 1)


@pytest.fixture
def machine() -> Iterator[Cluster]:
    """One machine with two GPUs, which is started and ended sooner."""
    yield from machines(2)


def machines(*gpus: int) -> Iterator[Cluster]:
    """Start a cluster of machines with so many GPUs each, and end it."""
    # No processes beyond those that are asked for: each costs half a second of a core.
    system = {"enable_metrics_collection": False, "prestart_worker_first_driver": False}
    # Ray leaves a socket open where the port it is given for a dashboard is taken: it takes any.
    head = node(gpus[0]) | {"_system_config": system, "dashboard_port": None}
    made = Cluster(initialize_head=True, head_node_args=head)
    for more in gpus[1:]:
        made.add_node(**node(more))
    made.wait_for_nodes()
    yield made
    made.shutdown()
    ray.shutdown()


def node(gpus: int) -> dict[str, Any]:
    """Return how a machine is started."""
    return {"num_cpus": 1, "num_gpus": gpus, "node_ip_address": "127.0.0.1"}


def started(registry: Registry) -> dict[int, str]:
    """Return the machine and process of each attempt under way."""
    running = [job for job in registry.jobs() if job.state == "running"]
    return {
        attempt.pid: attempt.worker
        for job in running
        for attempt in registry.attempts.of(job.key)
        if attempt.ended_at is None and attempt.pid is not None
    }


def some_done(states):
    """True when a few runs are done and others are not."""
    return 3 <= sum(state.status == "done" for state in states.values()) < len(states)


@pytest.mark.slow(seconds=70)
@pytest.mark.long
@pytest.mark.ray
def test_a_machine_a_worker_and_the_driver_are_lost(tmp_path, alone, cluster):
    home = tmp_path / "home"
    on_it = (*SURVEY, "--address", cluster.address, "--allow-cpu-for-gpu")
    scan = start(*on_it, home=home)
    until(some_done, home, scan)
    # Every worker has its device to itself.
    registry = Registry(open_home(home, create=False))
    devices = until(lambda _: len(started(registry)) == 4 and started(registry), home, scan)
    assert len(devices) == 4
    cluster.remove_node(cluster.list_all_nodes()[-1], allow_graceful=False)
    os.kill(next(iter(started(registry))), signal.SIGKILL)
    registry.close()
    until(lambda states: sum(s.status == "done" for s in states.values()) >= 9, home, scan)
    os.kill(scan.pid, signal.SIGKILL)
    scan.communicate()
    ended = survey_process(*on_it, home=home)
    assert "already measured and skipped" in ended.stderr
    assert_same(home, alone)
    assert rows("SELECT count(*) AS n FROM runs WHERE status = 'done'", home) == [{"n": 24}]
    outcomes = rows("SELECT max(attempt) AS most FROM runs", home)
    assert outcomes[0]["most"] >= 2


@pytest.mark.long
@pytest.mark.ray
def test_a_gpu_that_torch_does_not_see_is_refused(tmp_path, machine):
    home = tmp_path / "home"
    ended = survey_process(*SURVEY, "--address", machine.address, home=home, code=3)
    assert "--device cpu" in ended.stderr
