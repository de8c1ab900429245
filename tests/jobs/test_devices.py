"""Choosing devices and sharing out threads."""

import pytest

from jobs.devices import Devices, choose_devices
from survey import ClusterError, SettingsError


@pytest.mark.parametrize(
    ("choice", "workers", "gpus", "nodes", "expected"),
    [
        ("auto", None, 0, [8], Devices("cpu", 1, 8)),
        ("auto", 4, 0, [8], Devices("cpu", 4, 2)),
        ("auto", 3, 0, [8], Devices("cpu", 3, 2)),
        ("auto", None, 4, [8], Devices("cuda", 4, 2)),
        ("cuda", 2, 4, [8], Devices("cuda", 2, 4)),
        ("cpu", None, 4, [8], Devices("cpu", 1, 8)),
        ("auto", None, 0, [1, 1], Devices("cpu", 2, 1)),
        ("auto", None, 0, [4, 8], Devices("cpu", 2, 8 // 2)),
        ("auto", 3, 0, [4, 8], Devices("cpu", 3, 4)),
        ("auto", 4, 0, [4, 8], Devices("cpu", 4, 2)),
    ],
)
def test_one_worker_a_gpu_else_one_a_machine(choice, workers, gpus, nodes, expected):
    assert choose_devices(choice, workers, gpus, nodes) == expected


@pytest.mark.parametrize(("workers", "gpus"), [(0, 0), (9, 0), (5, 4), (-1, 0)])
def test_more_workers_than_devices_are_refused(workers, gpus):
    with pytest.raises(SettingsError, match=f"workers is {workers}"):
        choose_devices("auto", workers, gpus, [8])


def test_a_gpu_that_is_not_there_is_refused():
    with pytest.raises(ClusterError, match="no GPU"):
        choose_devices("cuda", None, 0, [8])


def test_an_unknown_device_is_named():
    with pytest.raises(SettingsError, match="'tpu'"):
        choose_devices("tpu", None, 0, [8])
