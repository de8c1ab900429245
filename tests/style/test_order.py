"""The order of the tests: every one once, long ones first, what shares something side by side."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from tests.order import shared_out


@dataclass(frozen=True)
class Module:
    """A module, marked whole or not."""

    own_markers: tuple[pytest.Mark, ...] = ()


@dataclass(frozen=True)
class Item:
    """What the order asks of a test."""

    nodeid: str
    module: Module = Module()
    mark: pytest.Mark | None = None

    def get_closest_marker(self, name: str) -> pytest.Mark | None:
        return self.mark or next(iter(self.module.own_markers), None)

    def getparent(self, kind: type) -> Module:
        return self.module


def slow(seconds: float) -> pytest.Mark:
    return pytest.Mark("slow", (), {"seconds": seconds}, _ispytest=True)


WHOLE = Module((slow(50),))

ITEMS = [
    *(Item(f"a.py::quick{n}") for n in range(20)),
    *(Item(f"b.py::long{n}", mark=slow(10 * n + 10)) for n in range(5)),
    *(Item(f"c.py::together{n}", WHOLE) for n in range(4)),
    *(Item(f"d.py::quick{n}") for n in range(10)),
]


@pytest.mark.parametrize("processes", [1, 2, 3, 4, 7, 60])
@pytest.mark.parametrize("count", [0, 1, 22, 39])
def test_every_test_is_run_once(count, processes):
    found = shared_out(ITEMS[:count], processes)
    assert sorted(item.nodeid for item in found) == sorted(item.nodeid for item in ITEMS[:count])


def test_each_process_begins_with_its_share_of_the_long_ones():
    found = [item.nodeid for item in shared_out(ITEMS, 3)]
    together = [f"c.py::together{n}" for n in range(4)]
    # 50 and 10, 50 and 20, 40 and 30 seconds, in thirteen tests each.
    assert found[:2] == ["b.py::long4", "b.py::long1"]
    assert found[13:18] == [*together, "b.py::long0"]
    assert found[26:28] == ["b.py::long3", "b.py::long2"]
    quick = [name for name in found if "quick" in name]
    assert quick == [item.nodeid for item in ITEMS if "quick" in item.nodeid]
