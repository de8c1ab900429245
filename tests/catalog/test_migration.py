"""A home of an older version is migrated after a copy was kept; a newer one is refused."""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from catalog.home import Home
from catalog.open_home import open_home
from catalog.registry.database import registry_engine
from catalog.registry.registry import Registry
from catalog.registry.revisions import known_revisions, revision_of
from catalog.store.upgrade import newest_version
from survey.errors import StoreError

PACKED = Path(__file__).parents[1] / "acceptance" / "home-1e4bcd2.tar.xz"


@pytest.fixture
def old_home(tmp_path: Path) -> Home:
    with tarfile.open(PACKED) as packed:
        packed.extractall(tmp_path, filter="data")
    return Home(tmp_path / "survey-home")


def kept(home: Home) -> dict[str, Path]:
    return {path.name.split("-")[0]: path for path in home.path.glob("backups/*")}


def jobs(path: Path) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT * FROM jobs ORDER BY key").fetchall()


def versions(home: Home) -> tuple[int, str | None]:
    with duckdb.connect(home.signatures, read_only=True) as connection:
        ((version,),) = connection.execute("SELECT max(version) FROM migrations").fetchall()
    engine = registry_engine(home)
    with engine.connect() as connection:
        revision = revision_of(connection)
    engine.dispose()
    return version, revision


def test_what_is_migrated_is_kept_as_it_was(old_home: Home) -> None:
    store, entries = old_home.signatures.read_bytes(), jobs(old_home.registry)
    open_home(old_home.path, create=True)
    assert versions(old_home) == (newest_version(), known_revisions()[-1])
    copies = kept(old_home)
    assert copies["signatures"].name.startswith("signatures-version-1-")
    assert copies["signatures"].read_bytes() == store
    assert copies["registry"].name.startswith("registry-version-0001-")
    assert jobs(copies["registry"]) == entries != []
    with closing(sqlite3.connect(copies["registry"])) as connection:
        revisions = connection.execute("SELECT version_num FROM alembic_version").fetchall()
    assert revisions == [("0001",)]
    before = sorted(old_home.path.glob("backups/*"))
    open_home(old_home.path, create=True)
    assert sorted(old_home.path.glob("backups/*")) == before


def test_nothing_is_migrated_that_cannot_be_kept(old_home: Home) -> None:
    old_home.path.joinpath("backups").write_text("in the way")
    store, before = old_home.signatures.read_bytes(), versions(old_home)
    with pytest.raises(StoreError, match="backups"):
        open_home(old_home.path, create=True)
    assert old_home.signatures.read_bytes() == store
    assert versions(old_home) == before == (1, "0001")


def test_a_home_of_this_version_is_not_copied(home: Home) -> None:
    with duckdb.connect(home.signatures) as connection:
        connection.execute("DROP VIEW IF EXISTS latest_signatures")
        for (view,) in connection.execute(
            "SELECT view_name FROM duckdb_views() WHERE NOT internal"
        ).fetchall():
            connection.execute(f"DROP VIEW {view}")
        connection.execute("ALTER TABLE batch_scores DROP COLUMN cka")
    open_home(home.path, create=True)
    with duckdb.connect(home.signatures, read_only=True) as connection:
        assert connection.execute("SELECT count(cka) FROM batch_scores").fetchall() == [(0,)]
    assert not home.path.joinpath("backups").exists()


def test_a_newer_home_is_refused_before_anything_is_read_or_written(home: Home) -> None:
    with closing(sqlite3.connect(home.registry)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    with duckdb.connect(home.signatures) as connection:
        connection.execute("INSERT INTO migrations VALUES (999, 'later', now())")
    store = home.signatures.read_bytes()
    with pytest.raises(StoreError, match=r"9999.* knows") as caught:
        Registry(home)
    assert "upgrade this program" in str(caught.value.hint)
    with pytest.raises(StoreError, match="9999"):
        open_home(home.path, create=True)
    assert home.signatures.read_bytes() == store
    assert not home.path.joinpath("backups").exists()
