"""The options that declare a survey mean the same to every verb that takes them."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from jobs.cli.main import app
from jobs.cli.survey_options import declares, definition_of
from survey import SettingsError


def options(verb: str) -> set[str]:
    command = typer.main.get_command(app).commands[verb]
    return {parameter.name for parameter in command.params}


def test_run_and_plan_take_the_same_declaration():
    declared = set(definition_of.__annotations__) - {"return"}
    assert len(declared) == 16
    assert declared <= options("run")
    assert declared <= options("plan")
    assert "definition" not in options("run") | options("plan")


def test_a_verb_gets_the_survey_and_options_of_its_own():
    given = []

    @declares
    def verb(context: typer.Context, definition: object, times: int = 1) -> None:
        given.append((definition, times))

    alone = typer.Typer()
    alone.command()(verb)
    arguments = ["-m", "small:digits_vgg7", "--limit", "9", "--pooling", "sum", "--times", "3"]
    assert CliRunner().invoke(alone, arguments, catch_exceptions=False).exit_code == 0
    ((definition, times),) = given
    assert times == 3
    assert definition == definition_of(model=["small:digits_vgg7"], limit=9, pooling="sum")
    assert definition.datasets[0].full_name == "digits[:9]"
    assert definition.settings.pooling == "sum"


@pytest.mark.parametrize("other", [{"limit": 3}, {"stratified": True}, {"expect_top1": 0.5}])
def test_a_file_excludes_what_belongs_to_names(other):
    with pytest.raises(SettingsError, match="a survey file excludes"):
        definition_of(Path("zoo.toml"), **other)
