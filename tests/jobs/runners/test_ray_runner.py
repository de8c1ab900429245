"""The local Ray: what it listens on, and what it is not started with."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import ray

from jobs.runners.options import RunnerOptions
from jobs.runners.ray.runner import RayRunner
from survey import SettingsError
from tests.acceptance.test_real_data import descendants
from tests.jobs.jobs import ON_CPU

LISTENING = "0A"


def listening(family: str) -> dict[str, str]:
    """Return the address each listening socket of the machine is bound to, by inode."""
    lines = [line.split() for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]]
    return {line[9]: line[1].split(":")[0] for line in lines if line[3] == LISTENING}


def sockets(pid: int) -> set[str]:
    """Return the inodes of a process's sockets."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return inodes


@pytest.mark.ray
def test_a_local_ray_listens_on_loopback_alone():
    with RayRunner(ON_CPU):
        ray.get(ray.remote(lambda: 1).remote())
        ours = set().union(*(sockets(pid) for pid in descendants(os.getpid())))
        tcp = {a for inode, a in listening("tcp").items() if inode in ours}
        tcp6 = {a for inode, a in listening("tcp6").items() if inode in ours}
    assert tcp | tcp6
    assert tcp <= {"0100007F"}
    loopback6 = {"00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert tcp6 <= loopback6


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_workers_that_may_never_rest_are_refused(seconds):
    with pytest.raises(SettingsError, match=r"stall is .* must be above 0"):
        RayRunner(RunnerOptions(stall=seconds))
