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
    assert len(declared) == 16
    assert declared <= options("run")
    assert declared <= options("plan")
    assert "survey" not in options("run") | options("plan")


def test_run_and_schedule_tick_take_the_same_options_of_runners():
    declared = options("run") - {field.name for field in fields(SurveyOptions)}
    assert {"runner", "workers", "threads", "deadline", "losses", "split"} < declared
    # Nobody is there to consent to code when a schedule is due.
    assert options("schedule tick") == declared - {"trust"} | {"grace"}


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


@pytest.mark.parametrize("other", [{"limit": 3}, {"stratified": True}, {"expect_top1": 0.5}])
def test_a_file_excludes_what_belongs_to_names(other):
    with pytest.raises(SettingsError, match="a survey file excludes"):
        SurveyOptions(Path("zoo.toml"), **other).definition()
