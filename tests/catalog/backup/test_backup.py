"""Backups hold what was acknowledged, once; what is torn or changed is refused; nothing is half."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from catalog.backup import making
from catalog.backup.making import make_backup
from catalog.backup.manifest import NAME
from catalog.backup.restoring import restore_backup
from catalog.home import Home, segment_paths
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.registry.rows import JobEntry
from catalog.store.records import BatchRecord
from catalog.store.writer import Writer
from catalog.tags import RunLabels
from survey.errors import NewerError, SettingsError, StoreError
from tests.catalog.records import batch, begin, end, run, stored

ROOT = Path(__file__).resolve().parents[3]

WRITING = """
import sys
from pathlib import Path
from catalog.home import Home
from tests.catalog.store.kill_writer import Feed, write_until_killed
write_until_killed(Home(Path(sys.argv[1])), 0, 1, Feed(1, 3))
"""

BATCHES = "SELECT batch, count(*) AS scores FROM batch_scores GROUP BY batch ORDER BY batch"


def write(home: Home, numbers: range, *, merge: bool = False) -> None:
    with Writer.open(home) as writer:
        for number in numbers:
            writer.write([run()], [BatchRecord("r1", 1, batch(number), 512 * (number + 1))])
        if not merge:
            # Closing would merge.
            writer._lock.release()


@pytest.fixture
def filled(home: Home) -> Home:
    write(home, range(4), merge=True)
    write(home, range(4, 6))
    with Registry(home) as registry:
        registry.add_jobs(registry.record_survey("s", {"models": ["a"]}), [job("k1"), job("k2")])
        end(registry, "k1", begin(registry, "k1"), "done")
        registry.labels.set({"run-k1": RunLabels(model="mine", tags={"epoch": 3})})
    return home


@pytest.fixture
def backup(filled: Home, tmp_path: Path) -> Path:
    make_backup(filled, tmp_path / "backup")
    return tmp_path / "backup"


def job(key: str) -> JobEntry:
    names = {"architecture": "resnet20", "source": "small", "checkpoint": "bundled"}
    return JobEntry(key, run_id=f"run-{key}", dataset="digits", settings={}, **names)


def test_a_restored_home_is_the_one_that_was_backed_up(filled: Home, backup: Path) -> None:
    assert len(segment_paths(filled.spool)) == 2
    restore_backup(backup, backup.parent / "again" / "home")
    again = open_home(backup.parent / "again" / "home", create=True)
    assert stored(again) == stored(filled)
    with Registry(filled) as one, Registry(again) as other:
        assert other.jobs() == one.jobs()
        assert other.labels.all() == one.labels.all()
        assert other.attempts.of("k1") == one.attempts.of("k1")
    write(again, range(6, 8), merge=True)
    assert [row["batch"] for row in stored(again, BATCHES)] == list(range(8))


@pytest.mark.slow(seconds=5)
def test_a_backup_in_mid_scan_has_each_acknowledged_row_once(home: Home, tmp_path: Path) -> None:
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITING, str(home.path)], cwd=ROOT, stdout=subprocess.PIPE
    )
    assert writer.stdout
    try:
        acknowledged, spooled = int(writer.stdout.readline()), 0
        os.set_blocking(writer.stdout.fileno(), False)
        for number in range(3):
            for line in writer.stdout.readlines():
                acknowledged = int(line)
            make_backup(home, tmp_path / f"{number}")
            restore_backup(tmp_path / f"{number}", tmp_path / f"home-{number}")
            restored = Home(tmp_path / f"home-{number}")
            spooled += len(segment_paths(restored.spool))
            rows = stored(restored, BATCHES)
            assert rows == [{"batch": place, "scores": 3} for place in range(len(rows))]
            assert len(rows) >= acknowledged
        assert writer.poll() is None
        assert spooled
    finally:
        writer.kill()
        writer.communicate()
    assert acknowledged > 4


def test_what_the_registry_has_as_done_is_in_the_store(
    filled: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def later(home: Home, copy: Home) -> object:
        # A run ends after the registry was copied and before the store is.
        with Writer.open(home) as writer, Registry(home) as registry:
            writer.write([run("run-k2", "done")])
            end(registry, "k2", begin(registry, "k2"), "done")
        return cut(home, copy)

    with Writer.open(filled) as writer:
        writer.write([run("run-k1", "done")])
    cut = making._cut
    monkeypatch.setattr(making, "_cut", later)
    make_backup(filled, tmp_path / "backup")
    restore_backup(tmp_path / "backup", tmp_path / "again")
    again = Home(tmp_path / "again")
    with Registry(again) as registry:
        done = {each.run_id for each in registry.jobs() if each.state == "done"}
    measured = {
        row["run_id"] for row in stored(again, "SELECT run_id FROM runs WHERE status='done'")
    }
    assert done == {"run-k1"}
    assert measured == {"run-k1", "run-k2"}


@pytest.mark.slow(seconds=4)
def test_a_kill_leaves_nothing_half_written(filled: Home, backup: Path, tmp_path: Path) -> None:
    folder = tmp_path / "killed"
    places = [str(filled.path), str(backup), str(folder)]
    killing = subprocess.run(
        [sys.executable, "-m", "tests.catalog.backup.kill_backup", *places],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert killing.returncode == 0, killing.stderr
    lines = [json.loads(line) for line in killing.stdout.splitlines()]
    assert len(lines) == 7
    for _, target, there, ended, left in lines:
        # The folder has its name when its parent is synced.
        whole = target == "catalog.backup.folder.sync_folder"
        assert there == (["it"] if whole else ["it.unfinished"])
        assert ended == ("there already" if whole else "made")
        assert left == ["it"]
    for place in folder.glob("restore-*"):
        assert stored(Home(place / "it")) == stored(filled)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def edit(path: Path, **values: object) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


CHANGES: dict[str, Callable[[Path], object]] = {
    "a bit of the store": lambda folder: flip(folder / "signatures.duckdb"),
    "a bit of the registry": lambda folder: flip(folder / "registry.sqlite"),
    "a bit of a segment": lambda folder: flip(next(folder.glob("spool/*"))),
    "a bit of the manifest": lambda folder: flip(folder / NAME),
    "an older moment": lambda folder: edit(folder / NAME, made_at="2020-01-01T00:00:00Z"),
    "a newer layout": lambda folder: edit(folder / NAME, format=99),
    "a manifest that is none": lambda folder: (folder / NAME).write_text("[]"),
    "a torn store": lambda folder: os.truncate(folder / "signatures.duckdb", 99_999),
    "no registry": lambda folder: (folder / "registry.sqlite").unlink(),
    "no manifest": lambda folder: (folder / NAME).unlink(),
    "a segment fewer": lambda folder: next(folder.glob("spool/*")).unlink(),
    "a file more": lambda folder: (folder / "spool" / "more.arrow").write_bytes(b""),
    "an address": lambda folder: (folder / "registry.toml").write_text("url = ''"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_backup_is_refused(backup: Path, tmp_path: Path, change: str) -> None:
    CHANGES[change](backup)
    with pytest.raises(StoreError, match=str(backup)) as caught:
        restore_backup(backup, tmp_path / "places" / "home")
    assert caught.value.hint
    assert not (tmp_path / "places").exists() or not list((tmp_path / "places").iterdir())


def test_a_folder_that_does_not_exist_is_no_damaged_backup(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        restore_backup(tmp_path / "nowhere", tmp_path / "home")


def make_newer(home: Home) -> None:
    with closing(sqlite3.connect(home.registry)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()


def test_a_home_with_a_newer_registry_is_not_backed_up(filled: Home, tmp_path: Path) -> None:
    make_newer(filled)
    with pytest.raises(NewerError, match="9999"):
        make_backup(filled, tmp_path / "backup")
    assert not (tmp_path / "backup").exists()


def test_a_backup_of_a_newer_version_is_refused(
    filled: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_newer(filled)
    # As a newer program makes it.
    monkeypatch.setattr(making, "check_registry", lambda _: None)
    make_backup(filled, tmp_path / "backup")
    with pytest.raises(NewerError, match="9999"):
        restore_backup(tmp_path / "backup", tmp_path / "again")
    assert not (tmp_path / "again").exists()


def test_nothing_that_is_there_is_overwritten(filled: Home, backup: Path, tmp_path: Path) -> None:
    before = stored(filled)
    with pytest.raises(SettingsError, match=str(filled.path)):
        restore_backup(backup, filled.path)
    with pytest.raises(SettingsError, match=str(backup)):
        make_backup(filled, backup)
    assert stored(filled) == before
    (tmp_path / "empty").mkdir()
    restore_backup(backup, tmp_path / "empty")
    assert stored(Home(tmp_path / "empty")) == before


@pytest.mark.parametrize("part", ["signatures.duckdb", "registry.sqlite", "spool"])
def test_a_damaged_home_gives_no_backup(filled: Home, tmp_path: Path, part: str) -> None:
    path = filled.path / part
    path = segment_paths(path)[0] if path.is_dir() else path
    content = bytearray(path.read_bytes())
    content[len(content) // 3 :] = os.urandom(len(content) - len(content) // 3)
    path.write_bytes(content)
    with pytest.raises(StoreError) as caught:
        make_backup(filled, tmp_path / "places" / "backup")
    assert "--repair" in str(caught.value.hint)
    assert not list((tmp_path / "places").iterdir())


def test_two_at_once_do_not_share_a_folder(filled: Home, tmp_path: Path) -> None:
    with making.appearing_folder(tmp_path / "backup", "backup") as fresh:
        (fresh / "mine").write_text("text")
        with pytest.raises(SettingsError, match="another process"):
            make_backup(filled, tmp_path / "backup")
        assert (fresh / "mine").exists()
    assert [path.name for path in (tmp_path / "backup").iterdir()] == ["mine"]
    shutil.rmtree(tmp_path / "backup")
    make_backup(filled, tmp_path / "backup")


def test_the_current_folder_is_not_replaced(
    filled: Home, backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shell would be left in a removed one."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for make in (
        lambda: restore_backup(backup, here),
        lambda: make_backup(filled, here),
    ):
        with pytest.raises(SettingsError, match=str(here)):
            make()
    assert here.samefile(Path.cwd())
    restore_backup(backup, here / "home")
