"""``survey tag``: labels and tags of runs, set, removed and listed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from catalog.registry.registry import Registry
from catalog.registry.rows import JobEntry
from catalog.tags import RunLabels
from jobs.cli.main import app
from tests.analysis.homes import Builder

RUNS = ("a1", "a2", "b1")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Builder(tmp_path / "home") as build:
        for run_id in RUNS:
            build(run_id, [0.5], architecture=f"net_{run_id}")
    jobs = [JobEntry(f"k{n}", n, f"net_{n}", "small", "init:0", "digits", {}) for n in RUNS]
    with Registry(build.home) as registry:
        registry.add_jobs(registry.record_survey("s", {}), jobs)
        registry.labels.set({"a1": RunLabels("Net", tags={"epoch": 1, "lr": 0.1})})
    return build.home.path


def tag(home: Path, *arguments: str) -> Result:
    return CliRunner().invoke(app, ["--home", str(home), "tag", *arguments])


def labels(home: Path) -> dict[str, RunLabels]:
    with Registry(Builder(home).home) as registry:
        return registry.labels.all()


def test_tags_are_set_on_the_runs_that_are_named_or_selected(home: Path) -> None:
    assert tag(home, "a1", "b", "lr=0.5", "good=true").exit_code == 0
    assert tag(home, "--model", "net_a*", "seed=3", "--label", "A").exit_code == 0
    assert tag(home, "--tag", "epoch", "--remove", "epoch").exit_code == 0
    assert labels(home) == {
        "a1": RunLabels("Net", "A", tags={"lr": 0.5, "good": True, "seed": 3}),
        "a2": RunLabels(None, "A", tags={"seed": 3}),
        "b1": RunLabels(tags={"lr": 0.5, "good": True}),
    }
    tag(home, "a1", "--label", "")
    assert labels(home)["a1"].label is None


@pytest.mark.parametrize(
    ("given", "changed"), [("lr=0.1", 1), ("lr=0.2", 2), ("epoch=1", 1), ("epoch=true", 2)]
)
def test_runs_that_have_the_tag_already_do_not_count_as_changed(
    home: Path, given: str, changed: int
) -> None:
    assert tag(home, "a1", "b1", given).stderr.split()[0] == str(changed)


def test_without_a_change_runs_are_listed(home: Path) -> None:
    rows = json.loads(tag(home, "--json").stdout)
    assert [row["run_id"] for row in rows] == list(RUNS)
    assert rows[0]["tags"] == {"epoch": 1, "lr": 0.1}
    assert (rows[0]["label"], rows[1]["label"], rows[1]["tags"]) == ("Net", None, {})
    # In the table what is missing is a dash.
    assert tag(home, "b1").stdout.splitlines()[-1].split()[-2:] == ["-", "-"]
    (row,) = json.loads(tag(home, "a1", "--json").stdout)
    assert row["architecture"] == "small:net_a1"


@pytest.mark.parametrize(
    "arguments",
    [
        ("lr=1",),
        ("z", "lr=1"),
        ("a", "lr=1"),
        ("a1", "l-r=1"),
        ("a1", "lr="),
        ("a1", "--remove", "nothing"),
        ("a1", "lr=1", "--remove", "lr"),
        ("a1", "--model", "net_*", "lr=1"),
        ("a1", "--label", "two\nlines"),
        ("--tag", "epoch=9", "lr=1"),
    ],
)
def test_what_cannot_be_done_changes_nothing(home: Path, arguments: tuple[str, ...]) -> None:
    before = labels(home)
    assert tag(home, *arguments).exit_code == 2
    assert labels(home) == before
