"""The copy of a home: it holds what the store's views give, whatever came since."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from catalog.home import Home
from catalog.registry.labels import labels_of
from catalog.registry.registry import Registry
from catalog.store import projection
from catalog.store.projection import Projection
from catalog.store.reader import query, run_row
from catalog.store.writer import Writer
from catalog.tags import RunLabels
from survey.errors import StoreError
from tests.analysis.homes import Builder

pytestmark = pytest.mark.quick

KEYS = {"runs": "run_id", "signatures": "run_id, site", "models": "run_id"}
KEYS["latest_signatures"] = KEYS["signatures"]


@pytest.fixture(autouse=True)
def _looking_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(projection, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(projection, "PAUSE", 0.0)


def add(home: Home, first: int, stop: int, **values: Any) -> None:
    rng = np.random.default_rng(first)
    with Builder(home.path) as build:
        build.number = first
        for number in range(first, stop):
            scores = rng.random((2, 3 + number % 3)).round(2)
            scores[0, 1] = np.nan
            metrics = {"cka": rng.random(scores.shape[1]), "flags": [("ridge",), *[()] * 9]}
            build(f"r{number:02}", scores, metrics, architecture=f"net{number % 4}", **values)


def assert_alike(home: Home, copy: Projection) -> None:
    for name, key in KEYS.items():
        sql = f"FROM {name} ORDER BY {key}"
        with copy.reading() as connection:
            copied = connection.sql(sql).to_arrow_table()
        stored = query(home, sql, labels=labels_of(home))
        copied = copied.select(stored.column_names)
        assert rounded(copied.to_pylist()) == rounded(stored.to_pylist()), name


def rounded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return rows whose means, which depend on the order of a sum, are of twelve digits."""
    return [
        {name: round(x, 12) if isinstance(x, float) else x for name, x in row.items()}
        for row in rows
    ]


def test_a_copy_holds_what_the_views_give_as_runs_come_and_change(tmp_path: Path) -> None:
    builder = Builder(tmp_path / "home")
    home, copy = builder.home, Projection(builder.home, labels_of)
    assert_alike(home, copy)
    add(home, 0, 5)
    assert_alike(home, copy)
    # Later ones of the same models, one that failed, and labels.
    add(home, 4, 9, attempt=2)
    add(home, 9, 10, status="failed", error="x")
    with Registry(home) as registry:
        registry.labels.set({"r02": RunLabels(model="mine", tags={"epoch": 3})})
    assert_alike(home, copy)
    # An accuracy that is expected of a run only now.
    expected = {"expected_top1": 0.9, "expected_source": "mine", "suspicion": "lower"}
    with Writer.open(home) as writer:
        writer.write([replace(run_row(home, "r08"), **expected)])
    assert_alike(home, copy)
    with copy.reading() as connection:
        found = connection.sql("SELECT suspicion FROM models WHERE run_id = 'r08'").fetchall()
    assert found == [("lower",)]


def test_a_copy_is_kept_and_another_process_has_one_of_its_own(tmp_path: Path) -> None:
    home = Builder(tmp_path / "home").home
    add(home, 0, 3)
    copy = Projection(home, labels_of)
    assert_alike(home, copy)
    code = (
        "import sys; from pathlib import Path; from catalog.home import Home\n"
        "from catalog.copied_home import copy_of\n"
        "with copy_of(Home(Path(sys.argv[1]))).reading() as connection:\n"
        "    print(connection.sql('SELECT count(*) FROM models').fetchall()[0][0])"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code, home.path], check=True, capture_output=True, text=True
    )
    assert shown.stdout == "3\n"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The runs that are read from the store."""
    ids, original = list[str](), projection._rows_of

    def watched(store: Any, asked: Sequence[str]) -> Any:
        ids.extend(asked)
        return original(store, asked)

    monkeypatch.setattr(projection, "_rows_of", watched)
    return ids


def test_only_what_is_new_is_read(tmp_path: Path, read: list[str]) -> None:
    home = Builder(tmp_path / "home").home
    add(home, 0, 3)
    copy = Projection(home, labels_of)
    assert_alike(home, copy)
    read.clear()
    add(home, 3, 4)
    assert_alike(home, copy)
    assert read == ["r03"]


def test_the_store_is_opened_once_for_a_few_runs_and_again_for_more(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Builder(tmp_path / "home").home
    add(home, 0, 2)
    copy = Projection(home, labels_of)
    opened, original = list[Home](), projection.reading

    def watched(home: Home) -> Any:
        opened.append(home)
        return original(home)

    monkeypatch.setattr(projection, "reading", watched)
    monkeypatch.setattr(projection, "_RUNS_AT_ONCE", 2)
    assert_alike(home, copy)
    assert len(opened) == 1
    add(home, 2, 7)
    assert_alike(home, copy)
    assert (len(opened), len(read)) == (4, 7)


def test_a_copy_that_is_lent_is_not_read_again(
    tmp_path: Path, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    home = Builder(tmp_path / "home").home
    add(home, 0, 3)
    copy = Projection(home, labels_of)
    copy.update()
    copy.lend()
    _, *others = projection._files(home)
    assert [each.exists() for each in others] == [True, False, False]
    read.clear()
    add(home, 3, 4)
    # Of another process, for which the first file is held.
    monkeypatch.setattr(projection, "_files", lambda _home: others)
    other = Projection(home, labels_of)
    assert_alike(home, other)
    assert read == ["r03"]
    # What is there is left alone.
    made = others[0].stat().st_mtime_ns
    monkeypatch.undo()
    copy.lend()
    assert others[0].stat().st_mtime_ns == made


def test_a_store_that_has_gone_is_an_error_of_the_store(tmp_path: Path) -> None:
    home = Builder(tmp_path / "home").home
    copy = Projection(home, labels_of)
    copy.update()
    home.path.rename(tmp_path / "elsewhere")
    for each in (copy, Projection(home, labels_of)):
        with pytest.raises(StoreError), each.reading():
            pass
    assert not home.path.exists()


@contextmanager
def full_disk() -> Iterator[None]:
    """Let no file of this process grow, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_copy_whose_file_cannot_be_written_goes_on_in_memory(tmp_path: Path) -> None:
    home = Builder(tmp_path / "home").home
    add(home, 0, 3)
    copy = Projection(home, labels_of)
    copy.update()
    add(home, 3, 5)
    with full_disk():
        with pytest.raises(StoreError):
            copy.lend()
        assert_alike(home, copy)
    add(home, 5, 6)
    assert_alike(home, copy)


def test_a_copy_is_begun_on_a_full_disk(tmp_path: Path) -> None:
    home = Builder(tmp_path / "home").home
    add(home, 0, 3)
    # Its file is there, and closed.
    Projection(home, labels_of).update()
    with full_disk():
        assert_alike(home, Projection(home, labels_of))
