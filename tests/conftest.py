"""What every test shares: one thread a library, a clean environment, repeatable examples."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import cycle
from pathlib import Path

import hypothesis
import pytest
from filelock import FileLock, Timeout

# Before torch or numpy is first imported: they read it once. Timings and last bits then do not
# depend on the machine's cores; a caller's own choice wins.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Two tests at once start more threads than there are cores: waiting ones must not burn the others'
# time, which made some tests take three times as long.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# Ray's workers give way to everything else otherwise: tests that wait for one would wait for all
# that compute.
os.environ.setdefault("RAY_worker_niceness", "0")
# What a test starts of Ray may take as long as a machine needs for it.
os.environ.setdefault("RAY_gcs_server_port_wait_time_s", "600")
os.environ.setdefault("RAY_worker_register_timeout_seconds", "600")
# Ray asks on a terminal otherwise, and reports to its makers.
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"

# A script's shell starts what runs in the background with SIGINT ignored, and children inherit
# that; a signal that is handled here begins with its default there, as in a terminal.
signal.signal(signal.SIGINT, signal.default_int_handler)

# No test may consent to code in a developer's name.
_STATE = tempfile.TemporaryDirectory(prefix="survey-state-")
os.environ["XDG_STATE_HOME"] = _STATE.name

hypothesis.settings.register_profile(
    "repeatable", derandomize=True, deadline=None, max_examples=50, database=None
)
hypothesis.settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def _own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep a developer's own home and cluster out of every test."""
    for name in (
        "SURVEY_HOME",
        "SURVEY_REGISTRY",
        "RAY_ADDRESS",
        "RAY_AUTH_MODE",
        "RAY_AUTH_TOKEN",
    ):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def tokenless(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """A user's home without a token for clusters: a developer's may hold one."""
    from ray._raylet import AuthenticationTokenLoader

    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("RAY_AUTH_TOKEN_PATH", raising=False)
    AuthenticationTokenLoader.instance().reset_cache()
    yield
    AuthenticationTokenLoader.instance().reset_cache()


#: Marks of tests that are not quick; nor are those that run the whole product.
NOT_QUICK = ("slow", "long", "ray", "gpu", "real_data")
ACCEPTANCE = Path(__file__).parent / "acceptance"


#: Where three clusters start at once on two cores, one is not up within Ray's half minute.
RAYS = 2

#: After how many files without Ray one with it follows, so that none has to wait for others.
APART = 5

WITH_RAY: pytest.StashKey[set[Path]] = pytest.StashKey()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among the modules: neither while all are imported nor in any test."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()


def pytest_unconfigure() -> None:
    """Let the modules end: DuckDB says at exit what is still there."""
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Mark the quick tests, and let processes that share the files begin with the slowest."""
    for item in items:
        if ACCEPTANCE not in item.path.parents and not any(map(item.get_closest_marker, NOT_QUICK)):
            item.add_marker("quick")
    yield
    # What was not asked for is gone now.
    config.stash[WITH_RAY] = {item.path for item in items if item.get_closest_marker("ray")}
    if hasattr(config, "workerinput"):
        places = _places(items, config.stash[WITH_RAY])
        items.sort(key=lambda item: places[item.path])


def _places(items: Iterable[pytest.Item], with_ray: set[Path]) -> dict[Path, float]:
    """Return the order of the files: the slowest first, those with Ray between the others."""
    seconds: defaultdict[Path, dict[int, float]] = defaultdict(dict)
    for item in items:
        # A mark is one object for all cases of a test, or all tests of a module.
        marks = {id(mark): mark.kwargs.get("seconds", 10.0) for mark in item.iter_markers("slow")}
        seconds[item.path] |= marks
    slowest = sorted(seconds, key=lambda file: -sum(seconds[file].values()))
    others = [file for file in slowest if file not in with_ray]
    rays = [file for file in slowest if file in with_ray]
    places = {file: APART * rank + 0.5 for rank, file in enumerate(rays)}
    return places | {file: float(rank) for rank, file in enumerate(others)}


@pytest.fixture(autouse=True, scope="module")
def _few_rays(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, worker_id: str
) -> Iterator[None]:
    """Wait until less than so many other files have clusters."""
    if request.path not in request.config.stash[WITH_RAY]:
        yield
        return
    base = tmp_path_factory.getbasetemp()
    folder = base if worker_id == "master" else base.parent
    locks = [FileLock(folder / f"ray-{number}.lock") for number in range(RAYS)]
    for lock in cycle(locks):
        with suppress(Timeout), lock.acquire(timeout=0.5):
            yield
            return
