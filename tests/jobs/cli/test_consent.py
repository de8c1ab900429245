"""Code of the user's: reading runs none of it, and running it takes consent to its content."""

from __future__ import annotations

import json
import stat
import sys
from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catalog.models import consent
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from jobs.cli.consent import obtain_consent
from jobs.planning.definition import read_definition
from jobs.planning.user_models import code_to_consent
from survey.errors import UntrustedCode
from tests.acceptance.command import survey
from tests.jobs.cli.streams import Terminal

SOURCE = """
import pathlib, sys
pathlib.Path({trace!r}).touch()
from torch import nn

def net():
    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))

net.survey = {{"size": 8, "mean": [0.5, 0.5, 0.5], "classes": 10}}
"""

FILE = '[[models]]\nname = "python:{module}:net"\n[[datasets]]\nname = "digits"\nlimit = 64\n'

NAME = "received_nets"


@pytest.fixture
def received(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a survey file and code that leaves a trace when it runs."""
    folder = tmp_path / "received"
    folder.mkdir()
    (folder / f"{NAME}.py").write_text(SOURCE.format(trace=str(tmp_path / "trace")))
    (folder / "zoo.toml").write_text(
        FILE.format(module=NAME) + "[settings]\nimages_per_score = 64\n"
    )
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(consent, "_admitted", set())
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.delitem(sys.modules, NAME, raising=False)
    return folder


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def planned(home: Path, *more: str) -> dict[str, object]:
    (row,) = json.loads(survey("plan", "zoo.toml", "--json", *more, home=home).stdout)
    return row


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    """Become a new process, as far as consent and imports go."""
    monkeypatch.setattr(consent, "_admitted", set())
    monkeypatch.delitem(sys.modules, NAME, raising=False)


@pytest.mark.slow(seconds=4)
def test_reading_runs_no_code_and_running_takes_consent(
    received: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = tmp_path / "trace"
    row = planned(home)
    unknown = ("run_id", "images", "batches", "why", "seconds")
    assert {row[name] for name in unknown} == {None}
    assert row["state"] == "unknown"
    facts = survey("models", "show", f"python:{NAME}:net", "--json", home=home)
    assert "sha256 of the code" in {each["fact"] for each in json.loads(facts.stdout)}
    survey("fetch", "zoo.toml", "--dry-run", home=home)
    refused = survey("run", "zoo.toml", "--runner", "local", home=home, code=2)
    assert "--trust" in refused.stderr
    assert not home.exists()
    survey("schedule", "add", "weekly", "zoo.toml", "--cron", "0 0 * * 1", home=home, code=2)
    assert not trace.exists()

    assert planned(home, "--trust")["state"] == "new"
    assert not home.exists()
    survey("run", "zoo.toml", "--runner", "local", home=home)
    assert trace.exists()
    assert planned(home)["state"] == "done"
    # What was consented to is kept for the next process, in a file that is the user's alone.
    (kept,) = (tmp_path / "state").rglob("*.txt")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    forget(monkeypatch)
    trace.unlink()
    survey("run", "zoo.toml", "--runner", "local", home=home)
    assert trace.exists()

    # Another file of the folder is another content.
    (received / "helper.py").write_text("VALUE = 1\n")
    forget(monkeypatch)
    trace.unlink()
    assert planned(home)["state"] == "unknown"
    survey("run", "zoo.toml", "--runner", "local", home=home, code=2)
    assert not trace.exists()


def test_a_schedule_is_consented_to_when_it_is_added(
    received: Path, home: Path, tmp_path: Path
) -> None:
    add = ("schedule", "add", "weekly", "zoo.toml", "--cron", "0 0 * * 1")
    survey(*add, "--trust", home=home)
    survey("schedule", "list", home=home)
    survey("status", home=home)
    assert not (tmp_path / "trace").exists()


@pytest.mark.slow(seconds=3)
@pytest.mark.parametrize("changed", [False, True])
def test_a_due_time_runs_the_code_that_was_consented_to_and_no_other(
    received: Path, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: bool
) -> None:
    survey("schedule", "add", "daily", "zoo.toml", "--cron", "0 0 * * *", "--trust", home=home)
    with Registry(open_home(home, create=False)) as registry:
        schedules = registry.schedules
        schedules.settle_anew(schedules.named("daily"), datetime.now(UTC) - timedelta(days=1))
    if changed:
        (received / "helper.py").write_text("VALUE = 1\n")
    forget(monkeypatch)
    tick = ("schedule", "tick", "--runner", "local", "--json")
    ran = survey(*tick, home=home, code=int(changed))
    (due,) = json.loads(ran.stdout)
    assert (due["state"], due["measured"]) == (("failed", None) if changed else ("done", 1))
    assert (tmp_path / "trace").exists() is not changed
    if changed:
        assert NAME in due["reason"]
        assert "--trust" in ran.stderr


def test_consents_that_others_can_write_are_not_believed(
    received: Path, home: Path, tmp_path: Path
) -> None:
    kept = tmp_path / "state/model-zoo-survey/consents.txt"
    kept.parent.mkdir(parents=True)
    kept.write_text("")
    kept.chmod(0o666)
    assert "others can write" in survey("plan", "zoo.toml", home=home, code=2).stderr
    kept.chmod(0o600)
    survey("plan", "zoo.toml", home=home)


@pytest.mark.parametrize(("answer", "consents"), [("y", True), ("n", False), ("", False)])
def test_on_a_terminal_the_user_is_asked(
    received: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, consents: bool
) -> None:
    shown = Terminal()
    monkeypatch.setattr(sys, "stdin", Terminal(f"{answer}\n"))
    monkeypatch.setattr(sys, "stderr", shown)
    definition = read_definition(Path("zoo.toml"))
    (code,) = code_to_consent(definition)
    with nullcontext() if consents else pytest.raises(UntrustedCode):
        obtain_consent(definition, trust=False)
    assert str(received) in shown.getvalue()
    assert code.sha256 in shown.getvalue()
    assert bool(code_to_consent(definition)) is not consents
    assert (tmp_path / "state/model-zoo-survey/consents.txt").exists() is consents
    assert not (tmp_path / "trace").exists()


class Interrupted(Terminal):
    """A terminal at which Ctrl-C is typed."""

    def readline(self, _: int | None = -1, /) -> str:
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("typed", "end"), [(Interrupted(), KeyboardInterrupt), (Terminal(), UntrustedCode)]
)
def test_a_question_is_interrupted_and_the_end_of_the_input_is_a_no(
    received: Path, monkeypatch: pytest.MonkeyPatch, typed: Terminal, end: type[BaseException]
) -> None:
    monkeypatch.setattr(sys, "stdin", typed)
    monkeypatch.setattr(sys, "stderr", Terminal())
    definition = read_definition(Path("zoo.toml"))
    with pytest.raises(end):
        obtain_consent(definition, trust=False)
    assert code_to_consent(definition)
