"""The options that declare a survey mean the same to every verb that takes them."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from jobs.cli.survey_options import SurveyOptions
from jobs.cli.verb import verb
from survey import SettingsError
from tests.jobs.cli.commands import commands


def options(name: str) -> set[str | None]:
    return {parameter.name for parameter in commands()[name].params}


def test_run_and_plan_take_the_same_declaration():
    declared = {field.name for field in fields(SurveyOptions)}
    assert len(declared) == 20
    assert declared <= options("run")
    assert declared <= options("plan")
    assert "survey" not in options("run") | options("plan")


def test_run_and_schedule_tick_take_the_same_options_of_runners():
    declared = options("run") - {field.name for field in fields(SurveyOptions)}
    assert {"runner", "workers", "threads", "deadline", "losses", "split"} < declared
    # Nobody is there to consent to code when a schedule is due, and its home is there already. A
    # service has its schedules itself.
    elsewhere = {"trust", "registry", "server", "token_file"}
    assert options("schedule tick") == declared - elsewhere | {"grace", "allowed"}


def test_a_verb_gets_the_survey_and_options_of_its_own():
    received = []

    @verb
    def measure(*, survey: SurveyOptions, times: int = 1) -> None:
        received.append((survey.definition(), times))

    alone = typer.Typer()
    alone.command()(measure)
    arguments = ["-m", "small:digits_vgg7", "--limit", "9", "--pooling", "sum", "--times", "3"]
    assert CliRunner().invoke(alone, arguments, catch_exceptions=False).exit_code == 0
    ((definition, times),) = received
    assert times == 3
    assert definition.datasets[0].full_name == "digits[:9]"
    assert definition.settings.pooling == "sum"
    same = SurveyOptions(model=["small:digits_vgg7"], limit=9, pooling="sum")
    assert definition == same.definition()


@pytest.mark.parametrize(
    "other", [{"limit": 3}, {"stratified": True}, {"expect_top1": 0}, {"label": ["a"]}]
)
def test_a_file_excludes_what_belongs_to_names(other):
    with pytest.raises(SettingsError, match="a survey file excludes"):
        SurveyOptions(Path("zoo.toml"), **other).definition()


def test_labels_are_of_the_weights_where_any_are_named_and_tags_of_all_runs():
    two = ["small:digits_vgg7", "small:digits_vgg9"]
    models = SurveyOptions(model=two, label=["a", "b"], tag=["lr=0.1"]).definition()
    assert [each.label for each in models.models] == ["a", "b"]
    assert models.tags == {"lr": 0.1}
    weights = SurveyOptions(model=two, checkpoint=["init:0"], label=["a"]).definition()
    assert [(each.label, each.checkpoints[0].label) for each in weights.models] == [(None, "a")] * 2
    with pytest.raises(SettingsError, match="--checkpoint 2 times"):
        SurveyOptions(model=two, checkpoint=["init:0", "init:1"], label=["a"]).definition()


def test_tags_beside_a_file_win_over_those_at_its_top_alone(tmp_path):
    path = tmp_path / "zoo.toml"
    path.write_text(
        "tags = { lr = 1, seed = 0 }\n[[models]]\nname = 'x'\ntags = { lr = 2 }", encoding="utf-8"
    )
    definition = SurveyOptions(path, tag=["lr=3", "author=me"]).definition()
    assert definition.tags == {"lr": 3, "seed": 0, "author": "me"}
    assert definition.models[0].tags == {"lr": 2}
