"""Choosing devices, sharing out threads, and placing workers on machines."""

import pytest

from jobs.cli.run import runner_of
from jobs.planning.worker_layout import Devices, Machine, choose_devices, grown, placed
from jobs.runners.options import RunnerOptions
from survey import ClusterError, SettingsError


def machines(nodes, gpus=()):
    """Return machines by their cores and GPUs."""
    gpus = list(gpus) + [0] * (len(nodes) - len(gpus))
    return [Machine(f"m{k}", c, g) for k, (c, g) in enumerate(zip(nodes, gpus, strict=True))]


@pytest.mark.parametrize(
    ("choice", "workers", "gpus", "nodes", "expected"),
    [
        ("auto", None, [], [8], Devices("cpu", 1, 8)),
        ("auto", 4, [], [8], Devices("cpu", 4, 2)),
        ("auto", 3, [], [8], Devices("cpu", 3, 2)),
        ("auto", None, [4], [8], Devices("cuda", 4, 2)),
        ("cuda", 2, [4], [8], Devices("cuda", 2, 4)),
        ("cpu", None, [4], [8], Devices("cpu", 1, 8)),
        ("auto", None, [], [1, 1], Devices("cpu", 2, 1)),
        ("auto", None, [], [4, 8], Devices("cpu", 2, 4)),
        ("auto", 3, [], [4, 8], Devices("cpu", 3, 4)),
        ("auto", 4, [], [4, 8], Devices("cpu", 4, 2)),
        ("auto", None, [2, 1, 1], [8, 8, 8], Devices("cuda", 4, 4)),
        ("auto", None, [0, 2], [8, 4], Devices("cuda", 2, 2)),
        ("auto", None, [], [2, 64], Devices("cpu", 2, 32)),
        # A machine without cores has no worker on its CPU.
        ("cpu", None, [0, 8], [8, 0], Devices("cpu", 1, 8)),
    ],
)
def test_one_worker_a_gpu_else_one_a_machine(choice, workers, gpus, nodes, expected):
    assert choose_devices(choice, workers, machines(nodes, gpus)) == expected


@pytest.mark.parametrize(
    ("environment", "options", "threads"),
    [
        ("1", {}, 1),
        ("1,4", {}, 1),
        (" 2 ", {}, 2),
        ("64", {}, 2),
        *((each, {}, 2) for each in ("", "0", "-1", "many")),
        ("1", {"threads": 2}, 2),
    ],
)
def test_openmp_bounds_the_threads_unless_they_are_chosen(
    monkeypatch, environment, options, threads
):
    monkeypatch.setenv("OMP_NUM_THREADS", environment)
    monkeypatch.setattr("jobs.runners.local.local_cores", lambda: 2)
    runner = runner_of(RunnerOptions(runner="local", device="cpu", **options))
    assert runner.devices.threads == threads


@pytest.mark.parametrize(
    ("threads", "nodes", "workers"),
    [(16, [8, 8, 16], 1), (40, [32, 64], 1), (8, [8, 8, 16], 3), (1, [8, 0], 1)],
)
def test_threads_alone_give_a_worker_to_each_machine_with_so_many_cores(threads, nodes, workers):
    chosen = choose_devices("cpu", None, machines(nodes), threads=threads)
    assert chosen == Devices("cpu", workers, threads)


@pytest.mark.parametrize(
    ("first", "now", "places"),
    [
        ("ab", "abc", ["b", "b", "c"]),
        # A place that is lost is one that a machine which joins may take.
        ("ab", "ac", ["c", "c"]),
        ("ab", "a", []),
        ("bc", "bcd", ["b", "c", "d"]),
        ("bc", "bd", ["b", "d"]),
        ("bc", "bca", ["b", "c"]),
        ("gh", "ghi", ["g", "h", "h", "i", "i"]),
    ],
)
def test_each_machine_that_joins_brings_workers(first, now, places):
    cores = {"a": 2, "g": 8, "h": 8, "i": 8}
    gpus = {"g": 1, "h": 2, "i": 2}
    begun, present = (
        [Machine(name, cores.get(name, 64), gpus.get(name, 0)) for name in names]
        for names in (first, now)
    )
    devices = choose_devices("auto", None, begun)
    assert sorted(placed(grown(devices, present, begun), present)) == places


def test_a_gpu_may_be_shared():
    for share, workers in ((0.4, 4), (0.6, 2), (1 / 3, 6)):
        # No worker has parts of two GPUs.
        chosen = choose_devices("auto", None, machines([8], [2]), share=share)
        assert (chosen.workers, chosen.fitting(machines([8], [2])[0])) == (workers, workers)
        with pytest.raises(SettingsError, match="workers"):
            choose_devices("auto", workers + 1, machines([8], [2]), share=share)
    chosen = choose_devices("auto", None, machines([8, 8], [1, 2]), share=0.5)
    assert chosen == Devices("cuda", 6, 2, 0.5)
    assert placed(chosen, machines([8, 8], [1, 2])) == ["m0", "m1", "m0", "m1", "m1", "m1"]
    with pytest.raises(SettingsError, match="share of a GPU is 2"):
        choose_devices("auto", None, machines([8], [4]), share=2)


@pytest.mark.parametrize(("workers", "gpus"), [(0, []), (9, []), (5, [4]), (-1, [])])
def test_more_workers_than_devices_are_refused(workers, gpus):
    with pytest.raises(SettingsError, match=f"workers is {workers}"):
        choose_devices("auto", workers, machines([8], gpus))


def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(ClusterError, match="no GPU"):
        choose_devices("cuda", None, machines([8]))


@pytest.mark.parametrize("workers", [None, 1])
@pytest.mark.parametrize("threads", [None, 1, 2])
def test_cores_that_are_not_there_are_refused(workers, threads):
    with pytest.raises(ClusterError) as caught:
        choose_devices("cpu", workers, machines([0, 0], [1, 2]), threads=threads)
    assert caught.value.exit_code == 3


def test_an_unknown_device_is_named():
    with pytest.raises(SettingsError, match="'tpu'"):
        choose_devices("tpu", None, machines([8]))


def test_workers_spread_over_machines_before_they_share_one():
    devices = Devices("cpu", 3, 2)
    assert placed(devices, machines([4, 8])) == ["m0", "m1", "m0"]


def test_lost_workers_are_placed_where_there_is_room():
    devices = Devices("cuda", 4, 1)
    three = machines([8, 8, 8], [2, 1, 1])
    assert placed(devices, three[:2], taken=["m0"]) == ["m1", "m0"]
    assert placed(devices, three, taken=["m0", "m0", "m1", "m2"]) == []
