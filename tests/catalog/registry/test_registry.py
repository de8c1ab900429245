"""The registry and the home: what is to be done, kept by many processes at once."""

from __future__ import annotations

import dataclasses
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import get_args

import pytest
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from sqlalchemy import Pool, event

from catalog.home import Home
from catalog.open_home import open_home
from catalog.paging import Filter, PageRequest
from catalog.registry.attempts import AttemptEnd, AttemptStart, AttemptWorker
from catalog.registry.database import registry_engine
from catalog.registry.pages import SUBMITTED_SURVEYS
from catalog.registry.registry import Registry
from catalog.registry.rows import AttemptOutcome, JobEntry, JobState
from catalog.registry.tables import METADATA
from catalog.store.reader import query
from catalog.store.upgrade import migrations
from survey.errors import (
    CheckpointError,
    NewerError,
    SettingsError,
    StoreError,
    SurveyError,
    UnknownName,
)
from tests.catalog.records import begin, end

ROOT = Path(__file__).resolve().parents[3]

OPEN = """
import sys
from pathlib import Path
from catalog.home import Home
from catalog.open_home import open_home
from survey.errors import SurveyError
for path in sys.argv[1:]:
    try:
        open_home(Path(path), create=True)
    except SurveyError as error:
        print(type(error).__name__, error, error.hint, sep=" | ", file=sys.stderr)
"""

#: For tests of the registry's file.
ONLY_FILE = pytest.mark.parametrize("home", ["sqlite"], indirect=True)

#: A job may come from any state.
ANY: tuple[JobState, ...] = get_args(JobState)

#: Runs a command where the folder is the mount point of a read-only file system.
READ_ONLY = 'mount -t tmpfs -o ro tmpfs "$1" && shift && exec "$@"'


def job(key: str = "k1", **values: str) -> JobEntry:
    basics = {"run_id": f"run-{key}", "architecture": "resnet20", "source": "small"}
    fixed = {"checkpoint": "bundled", "dataset": "digits"}
    return JobEntry(key, settings={"images_per_score": 512}, **{**basics, **fixed, **values})


@pytest.fixture
def registry(home: Home) -> Iterator[Registry]:
    with Registry(home) as registry:
        yield registry


def test_a_registry_that_is_not_closed_is_warned_of(home: Home) -> None:
    Registry(home).close()
    registry = Registry(home)
    with pytest.warns(ResourceWarning, match="registry"):
        del registry


def test_all_migrations_give_exactly_the_declared_tables(home: Home) -> None:
    engine = registry_engine(home)
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_server_default": True})
        differences = compare_metadata(context, METADATA)
    engine.dispose()
    # Changes of a column come in lists. SQLite keeps no comments, a server those of each migration.
    changes = [
        change for each in differences for change in ([each] if type(each) is tuple else each)
    ]
    assert [change for change in changes if "comment" not in change[0]] == []


def test_jobs_are_added_once_and_keep_their_state(registry: Registry) -> None:
    survey = registry.record_survey("zoo", {"models": ["a"]})
    assert registry.record_survey("zoo", {"models": ["a"]}) == survey
    assert registry.record_survey("zoo", {"models": ["b"]}) != survey
    registry.add_jobs(survey, [job("k1"), job("k2")])
    end(registry, "k1", begin(registry, "k1"), "done")
    registry.add_jobs(survey, [job("k1"), job("k2"), job("k3")])
    jobs = {one.key: one for one in registry.jobs()}
    assert {key: one.state for key, one in jobs.items()} == {
        "k1": "done",
        "k2": "todo",
        "k3": "todo",
    }
    assert jobs["k2"].settings == {"images_per_score": 512}
    age = datetime.now(UTC) - jobs["k2"].created_at
    assert timedelta(0) <= age < timedelta(minutes=5)


def test_a_row_is_written_with_its_declared_columns_alone(registry: Registry) -> None:
    registry.add_jobs(registry.record_survey("s", {}), [job()])
    (row,) = registry.jobs()
    again = dataclasses.replace(row, key="k2", run_id="r2", state="done", losses=3)
    registry.add_jobs(registry.record_survey("s", {}), [again])
    assert [(each.key, each.state, each.losses) for each in registry.jobs()] == [
        ("k1", "todo", 0),
        ("k2", "todo", 0),
    ]


@pytest.mark.parametrize(
    ("outcome", "state"),
    [("done", "done"), ("failed", "failed"), ("lost", "todo"), ("interrupted", "todo")],
)
def test_an_attempt_moves_its_job(
    registry: Registry, outcome: AttemptOutcome, state: JobState
) -> None:
    registry.add_jobs(registry.record_survey("s", {}), [job()])
    number = begin(registry, "k1")
    assert registry.jobs()[0].state == "running"
    registry.attempts.describe([AttemptWorker("k1", number, "worker-0", 7)])
    end(registry, "k1", number, outcome, state, stage="load", error="no", images_done=5)
    assert registry.jobs()[0].state == state
    (attempt,) = registry.attempts.of("k1")
    assert (attempt.outcome, attempt.stage, attempt.images_done) == (outcome, "load", 5)
    assert (attempt.worker, attempt.pid) == ("worker-0", 7)


def test_a_late_end_moves_nothing(registry: Registry) -> None:
    registry.add_jobs(registry.record_survey("s", {}), [job()])
    first, second = begin(registry, "k1"), begin(registry, "k1")
    assert (first, second) == (1, 2)
    end(registry, "k1", first, "failed", "running")
    assert registry.jobs()[0].state == "running"
    end(registry, "k1", second, "done")
    end(registry, "k1", second, "failed")
    assert registry.jobs()[0].state == "done"
    assert [one.outcome for one in registry.attempts.of("k1")] == ["failed", "done"]


def test_what_a_killed_scan_left_open_is_interrupted(registry: Registry) -> None:
    registry.add_jobs(registry.record_survey("s", {}), [job("k1"), job("k2")])
    begin(registry, "k1")
    end(registry, "k2", begin(registry, "k2"), "done")
    assert registry.mark_interrupted() == [("run-k1", 1)]
    assert registry.mark_interrupted() == []
    assert {one.key: one.state for one in registry.jobs()} == {"k1": "todo", "k2": "done"}
    assert [registry.attempts.of(key)[0].outcome for key in ("k1", "k2")] == ["interrupted", "done"]
    assert begin(registry, "k1") == 2


def test_attempts_at_once_get_numbers_of_their_own(home: Home) -> None:
    with Registry(home) as one:
        one.add_jobs(one.record_survey("s", {}), [job()])

    def start(_: int) -> int:
        with Registry(home) as another:
            return begin(another, "k1")

    with ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(start, range(24))) == list(range(1, 25))


@ONLY_FILE
def test_many_surveys_share_a_job(home: Home, registry: Registry) -> None:
    first, second = (registry.record_survey(name, {}) for name in ("a", "b"))
    registry.add_jobs(first, [job("k1"), job("k2")])
    for _ in range(2):
        registry.add_jobs(second, [job("k2"), job("k3")])
    assert [one.key for one in registry.jobs()] == ["k1", "k2", "k3"]
    with closing(sqlite3.connect(home.registry)) as connection:
        links = connection.execute("SELECT survey_id, job_key FROM survey_jobs ORDER BY 1, 2")
        assert links.fetchall() == [(first, "k1"), (first, "k2"), (second, "k2"), (second, "k3")]


def test_many_attempts_in_one_go(registry: Registry) -> None:
    keys = [f"k{number:05}" for number in range(6_000)]
    registry.add_jobs(registry.record_survey("s", {}), [job(key) for key in keys])
    numbers = registry.attempts.start(
        [AttemptStart(key, after=number % 3) for number, key in enumerate(keys)]
    )
    assert numbers == [number % 3 + 1 for number in range(len(keys))]
    assert registry.attempts.start([AttemptStart("k00000"), AttemptStart("k00000")]) == [2, 3]
    registry.attempts.describe(
        [AttemptWorker("k00000", 3, "host", 7), AttemptWorker("k00001", 2, "h", 8)]
    )
    assert [(one.worker, one.pid) for one in registry.attempts.of("k00000")] == [
        ("starting", None),
        ("starting", None),
        ("host", 7),
    ]
    registry.attempts.finish(
        [
            AttemptEnd(key, number, "done", "running" if key == "k00000" else "done")
            for key, number in zip(keys, numbers, strict=True)
            if number is not None
        ]
    )
    assert [registry.attempts.of(key)[-1].attempt for key in keys[:3]] == [3, 2, 3]
    assert {one.state for one in registry.jobs()} == {"done", "running"}
    assert [one.key for one in registry.jobs() if one.state == "running"] == ["k00000"]


def test_attempts_begin_together_or_not_at_all(registry: Registry) -> None:
    registry.add_jobs(registry.record_survey("s", {}), [job("k1")])
    with pytest.raises(UnknownName, match="k9"):
        registry.attempts.start([AttemptStart("k1"), AttemptStart("k9")])
    assert registry.attempts.of("k1") == []
    assert registry.jobs()[0].state == "todo"


def test_the_first_of_two_ends_in_one_go_counts(registry: Registry) -> None:
    registry.add_jobs(registry.record_survey("s", {}), [job("k1")])
    number = begin(registry, "k1")
    registry.attempts.finish(
        [
            AttemptEnd("k1", number, "lost", "todo", losses=1),
            AttemptEnd("k1", number, "failed", "failed", losses=2),
        ]
    )
    assert registry.attempts.of("k1")[0].outcome == "lost"
    assert (registry.jobs()[0].state, registry.jobs()[0].losses) == ("todo", 1)


def test_losses_are_those_of_the_last_end_until_a_job_gets_on_or_is_tried_again(
    registry: Registry,
) -> None:
    registry.add_jobs(registry.record_survey("s", {}), [job("k1"), job("k2")])
    ends = [
        AttemptEnd(key, begin(registry, key), "lost", "todo", losses=losses)
        for key, losses in (("k2", 2), ("k1", 1), ("k1", 2), ("k2", 1))
    ]
    registry.attempts.finish(ends)
    assert {one.key: one.losses for one in registry.jobs()} == {"k1": 2, "k2": 1}
    registry.set_states(["k1"], "todo", ANY)
    assert {one.key: one.losses for one in registry.jobs()} == {"k1": 0, "k2": 1}
    registry.attempts.forget_losses(["k2"])
    assert {one.key: one.losses for one in registry.jobs()} == {"k1": 0, "k2": 0}


@pytest.mark.parametrize("state", ["parked", "cancelled"])
def test_a_job_set_aside_does_not_come_back_by_itself(registry: Registry, state: JobState) -> None:
    survey = registry.record_survey("s", {})
    registry.add_jobs(survey, [job("k1"), job("k2")])
    number = begin(registry, "k1")
    registry.set_states(["k1", "k9"], state, ANY)
    assert registry.cancelled_keys() == ({"k1"} if state == "cancelled" else set())
    end(registry, "k1", number, "lost")
    registry.mark_interrupted()
    registry.add_jobs(survey, [job("k1")])
    assert {one.key: one.state for one in registry.jobs()} == {"k1": state, "k2": "todo"}
    registry.set_states(["k1"], "todo", ANY)
    assert {one.state for one in registry.jobs()} == {"todo"}


def test_a_cancelled_job_is_not_begun(registry: Registry) -> None:
    registry.add_jobs(registry.record_survey("s", {}), [job("k1"), job("k2")])
    registry.set_states(["k1"], "cancelled", ANY)
    starts = [AttemptStart("k1"), AttemptStart("k2"), AttemptStart("k1")]
    assert registry.attempts.start(starts) == [None, 1, None]
    assert {one.key: one.state for one in registry.jobs()} == {"k1": "cancelled", "k2": "running"}
    assert registry.attempts.of("k1") == []


@pytest.mark.parametrize(("outcome", "state"), [("failed", "cancelled"), ("done", "done")])
def test_only_being_done_moves_a_job_that_was_cancelled_meanwhile(
    registry: Registry, outcome: AttemptOutcome, state: JobState
) -> None:
    registry.add_jobs(registry.record_survey("s", {}), [job()])
    number = begin(registry, "k1")
    registry.set_states(["k1"], "cancelled", ANY)
    end(registry, "k1", number, outcome)
    assert registry.jobs()[0].state == state


def test_a_job_that_moved_meanwhile_stays_where_it_is(registry: Registry) -> None:
    registry.add_jobs(registry.record_survey("s", {}), [job("k1"), job("k2")])
    end(registry, "k1", begin(registry, "k1"), "done")
    assert registry.set_states(["k1", "k2"], "cancelled", ["todo", "running"]) == {"k2"}
    assert {one.key: one.state for one in registry.jobs()} == {"k1": "done", "k2": "cancelled"}


def test_the_smallest_micro_batch_stays(registry: Registry) -> None:
    for size in (32, 16, 64):
        registry.remember_micro_batch("timm:vit", "H100", 224, size)
    registry.remember_micro_batch("timm:vit", "H100", 384, 8)
    assert registry.micro_batches() == {("timm:vit", "H100", 224): 16, ("timm:vit", "H100", 384): 8}


def test_a_forked_process_uses_connections_of_its_own(registry: Registry) -> None:
    makers: list[int] = []

    def note(*_: object) -> None:
        makers.append(os.getpid())

    registry.add_jobs(registry.record_survey("s", {}), [job("k1")])
    event.listen(Pool, "connect", note)
    child = os.fork()
    if child == 0:
        os._exit(0 if begin(registry, "k1") == 1 and makers == [os.getpid()] else 1)
    _, status = os.waitpid(child, 0)
    assert status == 0
    assert begin(registry, "k1") == 2
    assert makers == []
    event.remove(Pool, "connect", note)


def test_wrong_names_are_refused(registry: Registry) -> None:
    with pytest.raises(UnknownName, match="k9"):
        begin(registry, "k9")
    with pytest.raises(StoreError, match=r"(?i)foreign key"):
        registry.add_jobs(99, [job()])


def test_a_file_is_hashed_again_only_when_it_changed(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights.th"
    path.write_bytes(b"one")
    assert registry.hashes.checkpoint_sha256(path) == hashlib.sha256(b"one").hexdigest()
    with monkeypatch.context() as patch:
        patch.setattr(
            "catalog.registry.hash_cache.file_sha256", lambda _: pytest.fail("hashed again")
        )
        assert registry.hashes.checkpoint_sha256(path) == hashlib.sha256(b"one").hexdigest()
    path.write_bytes(b"other")
    assert registry.hashes.checkpoint_sha256(path) == hashlib.sha256(b"other").hexdigest()
    with pytest.raises(CheckpointError, match=r"absent\.th"):
        registry.hashes.checkpoint_sha256(tmp_path / "absent.th")


@pytest.mark.parametrize("how", ["overwritten", "renamed over"])
def test_a_file_with_its_old_size_and_time_is_hashed_again(
    registry: Registry, tmp_path: Path, how: str
) -> None:
    path = tmp_path / "weights.th"
    path.write_bytes(b"one")
    registry.hashes.checkpoint_sha256(path)
    before = path.stat()
    if how == "renamed over":
        (tmp_path / "new").write_bytes(b"two")
        (tmp_path / "new").rename(path)
    else:
        path.write_bytes(b"two")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (3, before.st_mtime_ns)
    assert registry.hashes.checkpoint_sha256(path) == hashlib.sha256(b"two").hexdigest()


def test_a_hash_that_is_forgotten_is_read_anew(
    registry: Registry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "weights.th"
    path.write_bytes(b"one")
    registry.hashes.checkpoint_sha256(path)
    monkeypatch.setattr("catalog.registry.hash_cache.file_sha256", lambda _: "anew")
    registry.hashes.forget(path)
    assert registry.hashes.checkpoint_sha256(path) == "anew"


def test_a_dataset_is_read_again_only_when_it_changed(registry: Registry) -> None:
    computed = iter(["f1", "f2"])

    def fingerprint(signature: str) -> str:
        return registry.hashes.dataset_fingerprint("digits", signature, lambda: next(computed), 9)

    assert [fingerprint(s) for s in ("a", "a", "b", "b")] == ["f1", "f1", "f2", "f2"]


@pytest.mark.parametrize("wanted", [Filter("id", "is", (2**31,)), Filter("id", "max", (2**62,))])
def test_a_number_that_a_column_cannot_hold_is_no_failure_of_the_database(
    home: Home, wanted: Filter
) -> None:
    request = PageRequest(("id",), ("id",), (wanted,))
    try:
        assert SUBMITTED_SURVEYS.page(home, request).num_rows == 0
    except SettingsError:
        assert home.registry_url is not None


@ONLY_FILE
def test_a_newer_or_foreign_registry_is_refused(home: Home) -> None:
    with closing(sqlite3.connect(home.registry)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with pytest.raises(NewerError, match="9999"):
        open_home(home.path, create=True)
    for side in home.path.glob("registry.sqlite*"):
        side.unlink()
    home.registry.write_bytes(b"no database at all " * 100)
    with pytest.raises(StoreError, match="registry") as caught:
        open_home(home.path, create=True)
    assert caught.value.hint


@pytest.mark.slow(seconds=2)
def test_openings_of_a_new_home_at_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OPEN, str(tmp_path / "new" / "home")]
    started = [subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) for _ in range(2)]
    assert [process.communicate()[1] for process in started] == [b"", b""]
    home = open_home(tmp_path / "new" / "home", create=False)
    versions = query(home, "SELECT version FROM migrations ORDER BY version")["version"]
    assert versions.to_pylist() == [each.version for each in migrations()]
    with Registry(home) as registry:
        assert registry.jobs() == []


@pytest.mark.slow(seconds=5)
def test_a_new_registry_appears_with_all_its_tables(tmp_path: Path) -> None:
    """Whoever looks while a home is made, or after its maker was killed, sees all or nothing."""
    command = [sys.executable, "-c", OPEN, str(tmp_path / "home")]
    home = Home(tmp_path / "home")
    for _ in range(2):
        maker = subprocess.Popen(command, cwd=ROOT)
        try:
            while not home.registry.exists():
                assert maker.poll() is None
        finally:
            maker.kill()
            maker.wait()
        with Registry(home) as registry:
            assert registry.jobs() == []
        shutil.rmtree(home.path)


OLD_LOGS = """
import os, sqlite3, sys
file = sqlite3.connect(sys.argv[1] + "/registry.sqlite", isolation_level=None)
file.execute("PRAGMA journal_mode = WAL")
file.execute("PRAGMA wal_autocheckpoint = 0")
file.execute("CREATE TABLE filler (x)")
file.execute("BEGIN")
file.executemany("INSERT INTO filler VALUES (?)", [("y" * 500,)] * 500)
file.execute("COMMIT")
file.execute("PRAGMA wal_checkpoint(RESTART)")
file.execute("BEGIN")
file.executemany("INSERT INTO filler VALUES (?)", [("z" * 500,)] * 5)
file.execute("COMMIT")
os.kill(os.getpid(), 9)
"""


@ONLY_FILE
def test_logs_of_a_store_that_was_taken_away_do_not_spoil_the_new_one(home: Home) -> None:
    subprocess.run([sys.executable, "-c", OLD_LOGS, str(home.path)], check=False)
    assert home.path.joinpath("registry.sqlite-wal").stat().st_size
    home.registry.unlink()
    home.signatures.rename(home.path / "kept.duckdb")
    home.path.joinpath("signatures.duckdb.wal").write_bytes(b"left by a killed process")
    fresh = open_home(home.path, create=True)
    assert query(fresh, "SELECT count(*) AS n FROM runs").to_pylist() == [{"n": 0}]
    with Registry(fresh) as registry:
        assert registry.jobs() == []
    with closing(sqlite3.connect(fresh.registry)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        names = connection.execute("SELECT name FROM sqlite_master WHERE name = 'filler'")
        assert names.fetchall() == []


def test_opening_again_changes_nothing(home: Home) -> None:
    before = home.signatures.read_bytes()
    assert open_home(home.path, create=True) == open_home(home.path, create=False)
    assert home.signatures.read_bytes() == before


def test_a_home_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=str(tmp_path / "home")) as caught:
        open_home(tmp_path / "home", create=False)
    assert "survey run" in str(caught.value.hint)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("below", ["", "home", "deep/home"])
@pytest.mark.parametrize("create", [True, False])
def test_a_home_below_a_file_is_refused(tmp_path: Path, below: str, create: bool) -> None:
    file = tmp_path / "file"
    file.write_text("text")
    with pytest.raises(SettingsError, match=str(file)):
        open_home(file / below, create=create)
    assert file.read_text() == "text"
    assert list(tmp_path.iterdir()) == [file]


def test_a_home_on_a_read_only_mount_is_refused(tmp_path: Path) -> None:
    inside = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "sh"]
    try:
        tried = subprocess.run(
            [*inside, str(tmp_path), "true"], capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        pytest.skip("no `unshare` here: a read-only mount cannot be made")
    if tried.returncode:
        pytest.skip(f"a read-only mount cannot be made here: {tried.stderr.strip()}")
    places = [tmp_path, tmp_path / "home", tmp_path / "deep" / "home"]
    made = subprocess.run(
        [*inside, str(tmp_path), sys.executable, "-c", OPEN, *map(str, places)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    refusals = made.stderr.splitlines()
    assert len(refusals) == len(places), made.stderr
    for refusal, place in zip(refusals, places, strict=True):
        assert refusal.startswith(f"StoreError | the home {place} "), refusal
        assert "Read-only file system" in refusal
        assert "--home" in refusal


def test_a_home_that_cannot_be_written_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(SurveyError, match="Permission denied"):
        open_home(tmp_path / "home", create=True)
    assert not list(tmp_path.iterdir())


def test_equal_surveys_that_are_submitted_at_once_are_one(home: Home) -> None:
    def submitted(number: int) -> tuple[int, int]:
        with Registry(home) as registry:
            survey = registry.record_survey("zoo", {"round": number // 4})
            return survey, registry.submissions.add(survey, datetime.now(UTC)).id

    with ThreadPoolExecutor(4) as pool:
        results = list(pool.map(submitted, range(40)))
    for first in range(0, 40, 4):
        assert len(set(results[first : first + 4])) == 1
    assert len(set(results)) == 10
