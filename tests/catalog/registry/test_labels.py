"""Labels and tags of runs in the registry."""

from __future__ import annotations

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from catalog.home import Home
from catalog.open_home import open_home
from catalog.registry.copying import copy_to_file
from catalog.registry.labels import labels_of
from catalog.registry.registry import Registry
from catalog.registry.repair import registry_damage, repair_registry
from catalog.registry.revisions import make_registry
from catalog.registry.rows import JobEntry
from catalog.registry.tables import METADATA
from catalog.tags import RunLabels
from survey.errors import StoreError

#: For tests of the registry's file.
ONLY_FILE = pytest.mark.parametrize("home", ["sqlite"], indirect=True)

#: The tables of a registry's first version.
FIRST = {"checkpoints", "datasets", "surveys", "jobs", "survey_jobs", "attempts", "memory"}
FIRST |= {"schedules", "ticks"}


def made_by_an_older_program(home: Home) -> None:
    with closing(sqlite3.connect(home.registry)) as connection:
        since = {table.name for table in METADATA.sorted_tables if table.name not in FIRST}
        drops = "".join(f"DROP TABLE {name};" for name in since)
        connection.executescript(f"{drops} UPDATE alembic_version SET version_num = '0001'")


def test_tags_keep_their_values_and_types(home: Home) -> None:
    tags = {"epoch": 30, "lr": 1e-5, "frozen": False, "note": "ä = 'b'", "large": 2**62}
    with Registry(home) as registry:
        registry.labels.set({"r1": RunLabels("VGG", "epoch 30", "digits", tags)})
    kept = labels_of(home)
    assert kept == {"r1": RunLabels("VGG", "epoch 30", "digits", tags)}
    assert {name: type(value) for name, value in kept["r1"].tags.items()} == {
        name: type(value) for name, value in tags.items()
    }


def test_what_is_set_replaces_its_like_and_nothing_else(home: Home) -> None:
    with Registry(home) as registry:
        registry.labels.set({"r1": RunLabels("VGG", "first", tags={"lr": 0.1, "seed": 0})})
        registry.labels.set(
            {"r1": RunLabels(checkpoint="last", tags={"lr": "high"}), "r2": RunLabels()}
        )
        registry.labels.add_tags({"r1": {"lr": 3, "epoch": 7}})
        assert registry.labels.all() == {
            "r1": RunLabels("VGG", "last", tags={"lr": "high", "seed": 0, "epoch": 7})
        }
        registry.labels.remove_tags(["r1"], ["seed", "none"])
        registry.labels.remove_labels(["r1", "r2"])
        assert registry.labels.all() == {"r1": RunLabels(tags={"lr": "high", "epoch": 7})}


def test_a_survey_takes_away_what_it_no_longer_declares_and_no_more(home: Home) -> None:
    with Registry(home) as registry:
        labels = registry.labels
        labels.set({"r1": RunLabels(tags={"mine": 1, "lr": 0.3}), "r2": RunLabels("Own")})
        first = RunLabels("VGG", "last", tags={"lr": 0.1, "seed": 0, "given": 5})
        labels.declare("zoo.toml", dict.fromkeys(("r1", "r2"), first), by_hand=["given"])
        labels.declare("other.toml", {"r1": RunLabels(tags={"other": 2})})
        assert labels.all()["r1"].tags == {**first.tags, "mine": 1, "other": 2}
        labels.declare("zoo.toml", {"r1": RunLabels(checkpoint="final")})
        assert labels.all() == {
            # The run had an lr before the survey declared one.
            "r1": RunLabels(None, "final", tags={"lr": 0.1, "given": 5, "mine": 1, "other": 2}),
            "r2": RunLabels("VGG", "last", tags=first.tags),
        }


def test_thousands_of_runs_are_labelled_at_once(home: Home) -> None:
    many = {f"r{n:05}": RunLabels(tags={"epoch": n}) for n in range(12_000)}
    with Registry(home) as registry:
        registry.labels.set(many)
        assert registry.labels.all() == many
        registry.labels.remove_tags(many, ["epoch"])
        assert registry.labels.all() == {}


@ONLY_FILE
def test_a_home_of_an_older_program_has_none_and_takes_them_once_it_is_written(home: Home) -> None:
    made_by_an_older_program(home)
    assert labels_of(home) == {}
    open_home(home.path, create=True)
    with Registry(home) as registry:
        registry.labels.set({"r1": RunLabels(tags={"lr": 1})})
    assert labels_of(home) == {"r1": RunLabels(tags={"lr": 1})}


@ONLY_FILE
def test_without_a_registry_there_are_none(home: Home) -> None:
    home.registry.unlink()
    assert labels_of(home) == {}


@ONLY_FILE
@pytest.mark.parametrize("older", [False, True])
def test_a_repair_keeps_those_that_can_be_read(home: Home, older: bool) -> None:
    labels = {} if older else {"r1": RunLabels("VGG", tags={"lr": 0.5})}
    with Registry(home) as registry:
        registry.labels.set(labels)
    if older:
        made_by_an_older_program(home)
    shutil.copy(home.registry, home.path / "whole")
    done = repair_registry(home, [])
    assert done.torn == ()
    assert labels_of(home) == labels


@ONLY_FILE
def test_a_repair_keeps_those_of_an_older_program(home: Home) -> None:
    """Which survey declares a label is in no column of its tables."""
    for file in home.path.glob("registry.sqlite*"):
        file.unlink()
    make_registry(home.registry, "0005")
    with closing(sqlite3.connect(home.registry)) as older:
        older.execute("INSERT INTO run_labels (run_id, model) VALUES ('r1', 'VGG')")
        older.execute("INSERT INTO run_tags VALUES ('r1', 'lr', '0.5')")
        older.commit()
    assert repair_registry(home, []).torn == ()
    assert labels_of(home) == {"r1": RunLabels("VGG", tags={"lr": 0.5})}


def copied_without_index(home: Home, folder: Path) -> Home:
    folder.mkdir()
    for file in home.path.glob("registry.sqlite*"):
        if not file.name.endswith("-shm"):
            shutil.copy(file, folder)
    return Home(folder)


@ONLY_FILE
def test_who_may_only_read_sees_what_the_owner_has_committed(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows that are still in SQLite's log, beside an owner that has the registry open."""
    job = JobEntry("key", "r1", "vgg7", "small", "bundled", "digits", {})
    with Registry(home) as registry:
        registry.labels.set({"r1": RunLabels("VGG")})
        registry.add_jobs(registry.record_survey("mine", {}), [job])
        monkeypatch.setattr(os, "access", lambda *_: False)
        assert labels_of(home) == {"r1": RunLabels("VGG")}
        with Registry(home) as reader:
            assert [each.run_id for each in reader.jobs()] == ["r1"]
        copy = Home(tmp_path / "copy")
        copy.path.mkdir()
        copy_to_file(home, copy.registry)
        # Copied without the log's index, its rows are missed by no answer in silence.
        half = copied_without_index(home, tmp_path / "half")
        with pytest.raises(StoreError, match="-wal"):
            labels_of(half)
        assert registry_damage(half) is None
    # A folder that SQLite cannot write to, and in which it left no log.
    home.path.chmod(0o555)
    with Registry(home) as reader:
        assert [each.run_id for each in reader.jobs()] == ["r1"]
    assert labels_of(copy) == labels_of(home) == {"r1": RunLabels("VGG")}
    home.path.chmod(0o755)
