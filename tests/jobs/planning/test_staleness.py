"""Staleness: what a job that is measured again owes it to."""

from __future__ import annotations

import dataclasses
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from catalog.models.base import InputTransform
from catalog.store.writer import Writer
from jobs.planning.definition import parse_definition
from jobs.planning.holdings import Holdings
from jobs.planning.job import Job
from jobs.planning.plan import make_plan
from jobs.planning.staleness import Staleness, compared, staleness, summary
from survey import MEASURING_VERSION, MeasureSettings, UnknownName
from tests.catalog.homes import new_home
from tests.catalog.records import run
from tests.jobs.jobs import job


def row(of: Job, **changes: Any) -> dict[str, Any]:
    """Return the row of a run that a job gave, with changes."""
    return {
        "run_id": of.run_id,
        "checkpoint_sha256": of.checkpoint_sha256,
        "dataset_fingerprint": of.dataset_fingerprint,
        "settings": json.dumps(of.recorded_settings()),
        "transform": json.dumps(dataclasses.asdict(of.transform)),
        "measuring_version": MEASURING_VERSION,
        "torch_version": "2.0.0",
        **changes,
    }


@pytest.fixture(scope="module")
def planned() -> Job:
    return job()


def test_what_was_never_finished_is_new(planned: Job) -> None:
    assert str(compared(planned, None)) == "new"
    assert summary([Staleness()]) == "1 new"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"checkpoint_sha256": "0" * 64}, "checkpoint changed: sha256 00000000 -> "),
        ({"dataset_fingerprint": None}, "dataset changed: sha256 unknown -> "),
        ({"measuring_version": 1}, f"measuring version changed: 1 -> {MEASURING_VERSION}"),
    ],
)
def test_every_change_is_named(planned: Job, change: dict[str, Any], text: str) -> None:
    stale = compared(planned, row(planned, **change))
    assert str(stale).startswith(text)
    assert len(stale.changes) == 1
    assert stale.run_id == planned.run_id


def test_changed_code_makes_a_run_stale(planned: Job) -> None:
    edited = dataclasses.replace(planned, code_sha256="0" * 64)
    stale = compared(edited, row(planned))
    assert stale.stale
    assert str(stale).startswith("code changed")


def test_settings_are_named_one_by_one(planned: Job) -> None:
    settings = dataclasses.replace(planned.settings, pooling="pre", images_per_score=128)
    now = dataclasses.replace(planned, settings=settings, transform=InputTransform(8, 8))
    changes = {change.what: change.detail for change in compared(now, row(planned)).changes}
    assert changes["settings changed"] == "images_per_score 64 -> 128, pooling mean -> pre"
    assert "size " in changes["transform changed"]


def test_other_settings_make_no_run_stale(planned: Job) -> None:
    settings = dataclasses.replace(planned.settings, images_per_score=128)
    asked = dataclasses.replace(planned, settings=settings)
    otherwise = compared(asked, row(planned))
    stale = compared(asked, row(planned, checkpoint_sha256="0" * 64))
    assert summary([otherwise]) == "1 with other settings"
    assert summary([Staleness(), otherwise, stale, stale]) == (
        "1 new, 1 with other settings, 2 stale (checkpoint changed 2)"
    )


def test_a_setting_that_is_newer_than_the_run_had_its_default(planned: Job) -> None:
    recorded = {k: v for k, v in planned.settings.to_dict().items() if k != "precision"}
    old = row(planned, settings=json.dumps(recorded), measuring_version=1)
    assert "settings" not in str(compared(planned, old))
    # Without a precision, how it would be reached is no reason.
    least = dataclasses.replace(planned, settings=MeasureSettings(64, least_batches=9))
    assert "least_batches" not in str(compared(least, row(planned)))
    # What a run of 64 images a pass recorded has the key of those that a device chooses.
    older = json.dumps({**planned.settings.to_dict(), "micro_batch": 64})
    assert "micro_batch" not in str(compared(planned, row(planned, settings=older)))


def test_a_run_whose_record_names_no_ridge_had_the_absolute_one(planned: Job) -> None:
    recorded = {k: v for k, v in planned.settings.to_dict().items() if k != "ridge"}
    old = row(planned, settings=json.dumps(recorded))
    assert [str(change) for change in compared(planned, old).changes] == [
        "settings changed: ridge absolute -> relative"
    ]
    absolute = dataclasses.replace(planned.settings, ridge="absolute")
    kept = compared(dataclasses.replace(planned, settings=absolute), old)
    assert "settings" not in str(kept)


def test_libraries_count_only_where_chosen(planned: Job) -> None:
    assert "torch" not in str(compared(planned, row(planned, torch_version="1.0")))
    chosen = dataclasses.replace(planned, libraries=(("torch", "2.0.0"),))
    assert chosen.key != planned.key
    assert chosen.key != dataclasses.replace(planned, libraries=(("torch", "2.1.0"),)).key
    was = str(compared(chosen, row(planned, torch_version="1.0")))
    assert was == "library version changed: torch 1.0 -> 2.0.0"
    assert "counts from now on" in str(compared(chosen, row(planned)))
    assert "does not count any more" in str(compared(planned, row(chosen)))


def test_versions_enter_the_key_as_a_survey_chooses() -> None:
    values = {"models": [{"name": "small:cifar_resnet8", "checkpoints": ["init:0"]}]}
    plain, chosen, asked = (
        make_plan(definition, {}, Holdings()).jobs[0]
        for definition in (
            parse_definition(values, "test", Path()),
            parse_definition({**values, "remeasure": ["torch"]}, "test", Path()),
            parse_definition(values, "test", Path(), remeasure=["torch"]),
        )
    )
    assert plain.libraries == ()
    assert [name for name, _ in chosen.libraries] == ["torch"]
    assert chosen.key == asked.key != plain.key
    again = parse_definition({**values, "remeasure": ["torch"]}, "test", Path()).to_dict()
    assert parse_definition(again, "test", Path()).remeasure == ("torch",)
    with pytest.raises(UnknownName, match="library"):
        parse_definition({**values, "remeasure": ["torhc"]}, "test", Path())


def test_the_newest_finished_run_of_the_names_is_what_counts(tmp_path: Path, planned: Job) -> None:
    home = new_home(tmp_path)
    names = {
        "source": planned.source,
        "architecture": planned.architecture,
        "checkpoint": planned.checkpoint.reference,
        "dataset": planned.dataset,
    }
    with Writer.open(home) as writer:
        for day, (name, status) in enumerate([("old", "done"), ("new", "done"), ("bad", "failed")]):
            ended = datetime(2026, 5, day + 1, tzinfo=UTC)
            writer.write([run(name, status, finished_at=ended, **names)])
    other = dataclasses.replace(planned, architecture="cifar_plain8")
    reasons = staleness(home, [planned, other])
    assert reasons[planned.run_id].run_id == "new"
    assert str(reasons[other.run_id]) == "new"
    assert summary(reasons.values()).startswith(
        "1 new, 1 stale (checkpoint changed 1, dataset changed"
    )
