"""The registry on a server: the home remembers where, and no password is taken, kept or shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.backup.making import make_backup
from catalog.backup.restoring import restore_backup
from catalog.home import Home
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.registry.rows import JobEntry
from catalog.tags import RunLabels
from survey.errors import SettingsError
from tests.catalog.records import begin, end
from tests.postgresql import PASSWORD, Server

ON_SERVER = pytest.mark.parametrize("home", ["postgresql"], indirect=True)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://survey:hunter2@host/zoo",
        "postgresql://survey@host/zoo?password=hunter2",
        "mysql://survey:hunter2@host/zoo",
        "mysql://survey@host/zoo",
        "sqlite://",
        "postgresql://survey@host",
        "hunter2",
    ],
)
def test_other_urls_are_refused_and_passwords_not_shown(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError) as caught:
        open_home(tmp_path / "home", create=True, registry_url=url)
    assert "hunter2" not in f"{caught.value} {caught.value.hint}"
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("home", ["sqlite"], indirect=True)
def test_a_home_with_a_file_keeps_it(home: Home) -> None:
    with pytest.raises(SettingsError, match="is the file"):
        open_home(home.path, create=True, registry_url="postgresql://survey@host/zoo")


@pytest.mark.long
@ON_SERVER
def test_a_database_holds_the_registry_of_one_home(home: Home, tmp_path: Path) -> None:
    assert open_home(home.path, create=False) == home
    assert PASSWORD not in home.registry_address.read_text()
    with pytest.raises(SettingsError, match="another home"):
        open_home(tmp_path / "other", create=True, registry_url=home.registry_url)


@pytest.mark.long
@ON_SERVER
def test_a_registry_moves_to_a_file_and_back(home: Home, tmp_path: Path, server: Server) -> None:
    names = {"architecture": "resnet20", "source": "small", "checkpoint": "bundled"}
    with Registry(home) as registry:
        survey = registry.record_survey("s", {"models": ["a"]})
        registry.add_jobs(survey, [JobEntry("k", run_id="r", dataset="d", settings={}, **names)])
        end(registry, "k", begin(registry, "k"), "failed", error="why")
        registry.labels.set({"r": RunLabels("mine", tags={"lr": 0.1, "on": True, "n": 3})})
        before = registry.jobs(), registry.attempts.of("k"), registry.labels.all()
    make_backup(home, tmp_path / "backup")
    restore_backup(tmp_path / "backup", tmp_path / "file")
    server.sql("CREATE DATABASE elsewhere OWNER survey")
    restore_backup(tmp_path / "backup", tmp_path / "server", server.url("elsewhere"))
    for name in ("file", "server"):
        again = open_home(tmp_path / name, create=True)
        assert (again.registry_url is None) == again.registry.exists() == (name == "file")
        with Registry(again) as registry:
            assert (registry.jobs(), registry.attempts.of("k"), registry.labels.all()) == before
            # Numbers go on behind those that were copied.
            assert registry.record_survey("t", {}) == survey + 1
    with pytest.raises(SettingsError, match="another home"):
        restore_backup(tmp_path / "backup", tmp_path / "third", server.url("elsewhere"))
    assert not (tmp_path / "third").exists()
