"""``survey schedule``: declared, looked at, carried out and taken away from the command line."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catalog.open_home import open_home
from catalog.registry.registry import Registry
from jobs.planning.definition import read_definition
from jobs.schedules.cron import new_entry
from tests.acceptance.command import rows, start, survey

ZOO = """
[[models]]
name = "small:digits_vgg7"
[[datasets]]
name = "digits:heldout"
[settings]
images_per_score = 128
"""

WEEKLY = ("--cron", "0 3 * * 1", "--timezone", "Europe/Paris")


@pytest.fixture
def zoo(tmp_path: Path) -> Path:
    path = tmp_path / "zoo.toml"
    path.write_text(ZOO)
    return path


def due_now(home: Path, zoo: Path, name: str = "often", **policies: str) -> None:
    """Add a schedule some hours ago, three or four of whose due times have passed since."""
    opened = open_home(home, create=True)
    entry = new_entry(
        name, read_definition(zoo), zoo, cron="*/15 * * * *", timezone="UTC", **policies
    )
    with Registry(opened) as registry:
        registry.schedules.add(entry, datetime.now(UTC) - timedelta(minutes=50))


def shown(home: Path, name: str = "often") -> dict:
    (result,) = json.loads(survey("schedule", "show", name, "--format", "json", home=home).stdout)
    return result


def test_a_schedule_from_its_beginning_to_its_end(tmp_path, zoo):
    home = tmp_path / "home"
    zoo.write_text(
        f'tags = {{ site = "here" }}\n{zoo.read_text()}'.replace(
            'name = "small:digits_vgg7"', 'name = "small:digits_vgg7"\nlabel = "Seven"', 1
        )
    )
    message = survey("schedule", "add", "weekly", zoo, *WEEKLY, home=home).stderr
    assert "due next at" in message
    zoo.rename(tmp_path / "moved.toml")
    (listed,) = json.loads(survey("schedule", "list", "--format", "json", home=home).stdout)
    assert (listed["state"], listed["cron"], listed["missed"], listed["overlap"]) == (
        *("active", "0 3 * * 1", "latest", "skip"),
    )
    result = shown(home, "weekly")
    assert len(result["next_due"]) == 5
    assert all("T03:00:00+0" in moment for moment in result["next_due"])
    assert json.loads(result["definition"])["models"][0]["name"] == "small:digits_vgg7"
    text = survey("schedule", "show", "weekly", home=home).stdout
    assert str(zoo) in text
    for declared in ("labelled Seven", "site = here", "precision = none"):
        assert declared in text
    assert "nothing is due" in survey("schedule", "tick", home=home).stderr
    survey("schedule", "pause", "weekly", home=home)
    assert "paused" in survey("schedule", "list", home=home).stdout
    survey("schedule", "resume", "weekly", home=home)
    survey("schedule", "remove", "weekly", home=home)
    assert json.loads(survey("schedule", "list", "--format", "json", home=home).stdout) == []


def test_what_is_due_is_measured_and_written_down(tmp_path, zoo):
    home = tmp_path / "home"
    due_now(home, zoo)
    zoo.unlink()
    ended = survey("schedule", "tick", "--runner", "local", "--format", "json", home=home)
    (ran,) = json.loads(ended.stdout)
    assert (ran["state"], ran["measured"], ran["failed"], ran["skipped"]) == ("done", 1, 0, 0)
    assert rows("SELECT status FROM runs", home) == [{"status": "done"}]
    ticks = shown(home)["ticks"]
    assert [tick["state"] for tick in ticks][:3] == ["done", "skipped", "skipped"]
    assert "missed" in ticks[1]["reason"]


def test_jobs_that_fail_are_told_by_the_exit_code(tmp_path, zoo):
    home = tmp_path / "home"
    weights = tmp_path / "weights.pth"
    weights.write_bytes(b"no weights at all")
    zoo.write_text(ZOO.replace("[[datasets]]", f'checkpoints = ["file:{weights}"]\n[[datasets]]'))
    due_now(home, zoo)
    ended = survey("schedule", "tick", "--runner", "local", home=home, code=1)
    assert "error:" in ended.stderr
    assert shown(home)["ticks"][0]["state"] == "failed"
    assert "1 of 1 jobs failed" in shown(home)["ticks"][0]["reason"]


@pytest.mark.slow(seconds=15)
@pytest.mark.long
def test_commands_at_once_carry_a_due_time_out_once(tmp_path, zoo):
    home = tmp_path / "home"
    due_now(home, zoo)
    tick = ("schedule", "tick", "--runner", "local", "--format", "json")
    commands = [start(*tick, home=home) for _ in range(2)]
    answers = [command.communicate() for command in commands]
    assert [command.returncode for command in commands] == [0, 0], answers
    (ran,) = [one for out, _ in answers for one in json.loads(out)]
    assert (ran["state"], ran["measured"]) == ("done", 1)
    assert [run["attempt"] for run in rows("SELECT attempt FROM runs", home)] == [1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--cron", "0 25 * * 1"), ("'25' as its hour", "0 to 23")),
        (("--cron", "0 3 * *"), ("4 fields", "five")),
        (("--cron", "0 3 * * 1", "--timezone", "Europe/Pariss"), ("Europe/Paris",)),
        (("--cron", "0 3 * * 1", "--missed", "some"), ("some", "latest")),
        (("--cron", "0 3 * * 1", "--overlap", "some"), ("some", "replace")),
        ((), ("--cron",)),
    ],
)
def test_a_schedule_that_cannot_be_is_refused(tmp_path, zoo, arguments, words):
    home = tmp_path / "home"
    ended = survey("schedule", "add", "weekly", zoo, *arguments, home=home, code=2)
    for text in words:
        assert text in ended.stderr
    assert not home.exists()


def test_names_and_files_that_cannot_be_are_refused(tmp_path, zoo):
    home = tmp_path / "home"
    absent = survey("schedule", "add", "a", tmp_path / "absent.toml", *WEEKLY, home=home, code=2)
    assert "there is no survey file" in absent.stderr
    unknown = tmp_path / "unknown.toml"
    unknown.write_text('[[models]]\nname = "small:digits_vgg8"\n')
    message = survey("schedule", "add", "a", unknown, *WEEKLY, home=home, code=2).stderr
    assert "digits_vgg8" in message
    for verb in ("tick", "list"):
        assert "no home" in survey("schedule", verb, home=home, code=2).stderr
    assert not home.exists()
    survey("schedule", "add", "weekly", zoo, *WEEKLY, home=home)
    again = survey("schedule", "add", "weekly", zoo, *WEEKLY, home=home, code=2).stderr
    assert "already" in again
    assert "schedule remove weekly" in again
    for verb in ("show", "pause", "resume", "remove"):
        message = survey("schedule", verb, "weakly", home=home, code=2).stderr
        assert "did you mean weekly?" in message
