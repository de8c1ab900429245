"""A home that is made on a disk without room for it: refused, and made once there is room."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.store.reader import query
from survey.errors import SettingsError, StoreError
from tests.catalog.homes import new_home


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small disk; without leave to mount one the tests are skipped."""
    place = tmp_path / "disk"
    place.mkdir()
    done = mounted("-t", "tmpfs", "-o", "size=16k", "tmpfs", place)
    if done.returncode:
        pytest.skip(f"mounting does not work here: {done.stderr.decode().strip()}")
    yield place
    # Lazily: a test that fails may keep a file open for as long as it is told of.
    subprocess.run(["umount", "--lazy", str(place)], check=True)


def mounted(*arguments: object) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["mount", *map(str, arguments)], capture_output=True, check=False)


@pytest.mark.slow(seconds=2)
def test_wherever_the_disk_ends_nothing_half_made_is_left(tmp_path: Path, disk: Path) -> None:
    store = new_home(tmp_path / "home").signatures.stat().st_size >> 10
    refusals: list[str] = []
    # From no room for the store to room for the registry beside it.
    for kilobytes in (store // 8, store // 2, *range(store, 2 * store, 48)):
        assert mounted("-o", f"remount,size={kilobytes}k", disk).returncode == 0
        try:
            home = open_home(disk / "home", create=True)
        except StoreError as error:
            refusals.append(error.message)
        else:
            break
    assert any("signatures.duckdb" in message for message in refusals)
    assert any("registry.sqlite" in message for message in refusals)
    assert mounted("-o", "remount,size=32m", disk).returncode == 0
    assert query(home, "SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 0}]
    with Registry(home) as registry:
        assert registry.jobs() == []
    left = {path.name for path in home.path.glob("signatures*")}
    assert left == {"signatures.duckdb", "signatures.duckdb.lock"}


def test_a_home_whose_name_is_no_text_is_refused(tmp_path: Path) -> None:
    for create in (True, False):
        with pytest.raises(SettingsError, match="udcff"):
            open_home(tmp_path / "h\udcff", create=create)
