"""The order of the tests: the long ones begin first, shared out over the processes.

``--dist worksteal`` gives each process tests that stand side by side, and lets one that is done
take from the end of another's. So what each is given begins with its share of the long ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain, islice

import pytest

#: What is assumed of a long test, and of a long module, that does not say.
ITEM_SECONDS, MODULE_SECONDS = 15.0, 120.0


def shared_out(items: list[pytest.Item], processes: int) -> list[pytest.Item]:
    """Return tests in the order in which so many processes are done soonest.

    Parameters
    ----------
    items : list of pytest.Item
        In the order in which they were found.
    processes : int
        How many share them.
    """
    long: defaultdict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow"):
            long[_unit(item)].append(item)
    shares: list[list[pytest.Item]] = [[] for _ in range(processes)]
    taken = [0.0] * processes
    for unit in sorted(long.values(), key=_seconds, reverse=True):
        number = taken.index(min(taken))
        shares[number] += unit
        taken[number] += _seconds(unit)
    quick = (item for item in items if not item.get_closest_marker("slow"))
    return list(chain(*_runs(shares, quick, len(items)), quick))


def _runs(
    shares: list[list[pytest.Item]], quick: Iterator[pytest.Item], left: int
) -> Iterator[Iterable[pytest.Item]]:
    """Yield what each process is given, of lengths that are those of the scheduler."""
    for number, share in enumerate(shares):
        length = left // (len(shares) - number)
        left -= length
        yield share
        yield islice(quick, max(0, length - len(share)))


def _unit(item: pytest.Item) -> str:
    """Name what has to stay together: a module that is marked whole shares something long."""
    return item.nodeid.partition("::")[0] if _marked_whole(item) else item.nodeid


def _marked_whole(item: pytest.Item) -> bool:
    module = item.getparent(pytest.Module)
    return module is not None and any(mark.name == "slow" for mark in module.own_markers)


def _seconds(unit: list[pytest.Item]) -> float:
    """Return about how long a unit takes, of what its mark says."""
    mark = unit[0].get_closest_marker("slow")
    default = MODULE_SECONDS if _marked_whole(unit[0]) else ITEM_SECONDS
    return float(mark.kwargs.get("seconds", default)) if mark else 0.0
