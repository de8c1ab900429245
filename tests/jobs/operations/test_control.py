"""What a person decides about jobs, and what the command line answers."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from catalog.home import Home
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from jobs.cli.main import app
from jobs.operations import control
from jobs.operations.control import move_jobs
from survey import SettingsError
from tests.catalog.homes import new_home
from tests.catalog.records import begin, end
from tests.jobs.jobs import job


@pytest.fixture
def registry(tmp_path: Path):
    """Give the registry of a home with one job that waits."""
    with Registry(new_home(tmp_path / "home")) as registry:
        registry.add_jobs(registry.record_survey("s", {}), [job().to_entry()])
        yield registry


def command(*arguments: str, home: Path, code: int = 0) -> Result:
    ended = CliRunner().invoke(app, ["--home", str(home), *arguments])
    assert ended.exit_code == code, ended.stderr
    return ended


def test_a_job_that_is_done_meanwhile_is_not_cancelled(registry, tmp_path, monkeypatch):
    home = open_home(tmp_path / "home", create=False)
    (one,) = registry.jobs()

    def states(_: Home) -> dict[str, object]:
        # Between the reading of the jobs and their moving the scan goes on.
        end(registry, one.key, begin(registry, one.key), "done")
        return {}

    monkeypatch.setattr(control, "run_states", states)
    assert move_jobs(home, "cancelled", [one]) == []
    assert registry.jobs()[0].state == "done"


def test_what_is_done_has_a_hint_of_its_own(registry, tmp_path):
    (one,) = registry.jobs()
    end(registry, one.key, begin(registry, one.key), "done")
    for to in ("todo", "cancelled"):
        with pytest.raises(SettingsError, match="is done") as caught:
            move_jobs(open_home(tmp_path / "home", create=False), to, registry.jobs())
        assert caught.value.hint == "what is measured stays: survey show shows it"


def test_nothing_to_move_is_said_so(registry, tmp_path):
    home = tmp_path / "home"
    assert command("retry", "--all", home=home).stderr.startswith("nothing to try again")
    ended = command("cancel", "--all", home=home)
    assert f"{job().title}\n1 job cancelled; survey retry undoes this" in ended.stderr
    assert command("cancel", "--all", home=home).stderr.startswith("nothing to cancel")
    (moved,) = json.loads(command("retry", "--all", "--json", home=home).stdout)
    assert (moved["run_id"], moved["state"]) == (job().run_id, "todo")
    assert json.loads(command("retry", "--all", "--json", home=home).stdout) == []
    twice = (moved["run_id"], moved["run_id"][:-1])
    assert "\n1 job cancelled" in command("cancel", *twice, home=home).stderr


def test_watching_ends_with_ctrl_c_and_no_error(tmp_path, monkeypatch):
    def interrupted(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupted)
    ended = command("status", "--watch", home=tmp_path / "home", code=130)
    assert "waiting" in ended.stdout
    assert ended.stderr == ""
