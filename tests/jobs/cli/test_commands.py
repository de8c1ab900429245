"""What every command's help says, and what all commands understand."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time

import pytest
from typer.testing import CliRunner

from catalog.open_home import open_home
from catalog.store.writer_lock import own_process
from docs.generate.cli_page import page
from jobs.cli.main import VERBS, app
from jobs.scan.scan_progress import ScanProgress, write_progress
from tests.jobs.cli.commands import commands
from tests.style.repository import ROOT

COMMANDS = commands()

#: Wider than any help text, so that none is broken into lines.
WIDE = {"COLUMNS": "600"}


def rendered(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*arguments], env=WIDE, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def line_of(option: str, text: str) -> str:
    (line,) = [line for line in text.splitlines() if re.match(rf"│[ *]+{option}[ ,]", line)]
    return line


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_every_option_with_its_default(name):
    text = rendered(*name.split(), "-h")
    assert text == rendered(*name.split(), "--help")
    for parameter in COMMANDS[name].params:
        if parameter.param_type_name != "option" or parameter.hidden:
            continue
        line = line_of(parameter.opts[0], text)
        # What looks like markup is swallowed: then this text is not all there.
        assert parameter.help in line
        if isinstance(parameter.show_default, str):
            assert f"[default: ({parameter.show_default})]" in line
        elif parameter.secondary_opts:
            assert f"[default: {name_of_flag(parameter)}]" in line
        elif parameter.default not in (None, False, ()):
            assert f"[default: {parameter.default}]" in line


def name_of_flag(parameter) -> str:
    chosen = parameter.opts if parameter.default else parameter.secondary_opts
    return chosen[0].removeprefix("--")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_described_by_a_phrase(name):
    for parameter in COMMANDS[name].params:
        assert not parameter.help[0].islower(), parameter.name
        assert parameter.help.endswith("."), parameter.name
        assert len(parameter.help.split()) > 1, parameter.name


def test_the_page_about_commands_is_made_from_them():
    assert (ROOT / "docs" / "cli.md").read_text(encoding="utf-8") == page(), "run make docs"


def test_verbs_stand_in_groups_in_order():
    text = rendered("--help")
    shown = re.findall(r"^│ ([a-z]+) ", text, re.MULTILINE)
    assert shown == [verb for verbs in VERBS.values() for verb in verbs]
    assert re.findall(r"─ ([A-Z][a-z ]+?) ─", text) == ["Options", *VERBS]


def test_a_mistyped_verb_is_answered_by_the_nearest():
    result = CliRunner().invoke(app, ["statsu"])
    assert result.exit_code == 2
    assert "status" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        ("--home", "{here}", "--format", "json", "status"),
        ("--home", "nowhere", "--format", "csv", "status", "--home", "{here}", "--json"),
        ("status", "--home", "{here}", "--format", "json", "--json"),
        ("--json", "status", "--home", "{here}"),
    ],
)
def test_options_before_the_verb_lose_to_those_after_it(arguments, tmp_path):
    open_home(tmp_path / "home", create=True)
    given = [argument.format(here=tmp_path / "home") for argument in arguments]
    result = CliRunner().invoke(app, given, catch_exceptions=False)
    assert result.exit_code == 0
    assert result.stdout == "[]\n"


@pytest.mark.parametrize(
    "arguments",
    [
        *(("plan", "--model", "small:digits_vgg7", "--workers", count) for count in ("0", "-2")),
        *(("status", "--watch", "--interval", seconds) for seconds in ("inf", "1e10")),
        *(("schedule", "tick", "--grace", seconds) for seconds in ("inf", "1e20")),
        ("serve", "--allow", "nowhere", "--grace", "inf"),
        *(("timeline", "--figure", "x.svg", "--font-size", points) for points in ("3", "inf")),
    ],
)
def test_numbers_without_a_meaning_are_refused(arguments, tmp_path):
    open_home(tmp_path / "home", create=True)
    result = CliRunner().invoke(app, [*arguments, "--home", str(tmp_path / "home")])
    assert result.exit_code == 2
    assert arguments[-2] in result.stderr


@pytest.mark.parametrize("arguments", [("--home", "", "demo"), ("demo", "--home", "")])
def test_an_empty_path_is_no_home(arguments, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    # Where the path is taken nothing is measured either: there is no such model.
    monkeypatch.setattr("jobs.cli.demo.DEMO_MODELS", "small:digits_none")
    result = CliRunner().invoke(app, [*arguments, "--runner", "local"])
    assert (result.exit_code, "--home" in result.stderr) == (2, True)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("survey sche", {"schedule"}),
        ("survey schedule pa", {"pause"}),
        ("survey --home x run --home y --device ", {"auto", "cpu", "cuda"}),
        ("survey run --thr", {"--threads"}),
        ("survey run --ridge ", {"absolute", "relative"}),
        ("survey run --shrinkage l", {"ledoit-wolf"}),
        ("survey plan --pooling p", {"pre", "public_code"}),
    ],
)
def test_a_shell_completes_verbs_options_and_values(words, expected, monkeypatch, capsys):
    monkeypatch.setenv("_SURVEY_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    with pytest.raises(SystemExit):
        app([], prog_name="survey")
    assert set(capsys.readouterr().out.split()) == expected


def test_completion_imports_nothing_that_takes_long():
    """The Tab key waits for no library of numbers."""
    heavy = {"torch", "ray", "numpy", "pandas", "pyarrow", "duckdb", "sqlalchemy"}
    asked = (
        "import sys\n"
        "from jobs.cli.main import app\n"
        "try: app([], prog_name='survey')\n"
        f"finally: sys.stderr.write(' '.join({heavy} & set(sys.modules)))"
    )
    shell = {"_SURVEY_COMPLETE": "complete_bash", "COMP_WORDS": "survey run --", "COMP_CWORD": "2"}
    command = [sys.executable, "-c", asked]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **shell}
    )
    assert "--model" in done.stdout.split()
    assert done.stderr == ""


def test_a_first_scan_imports_nothing_it_can_do_without(tmp_path):
    """Its first row waits for no compiler and for no library that it asks nothing of."""
    heavy = {"torch._dynamo", "sympy", "numba", "sklearn", "torchvision", "timm", "ray"}
    heavy |= {"pandas", "scipy.optimize"}
    scanned = (
        "import sys\n"
        "from jobs.cli.main import app\n"
        "try: app()\n"
        f"finally: print(*{heavy} & set(sys.modules))"
    )
    scan = ("-m", "small:digits_vgg7", "-d", "digits[:32]", "--images-per-score", "32")
    command = [sys.executable, "-c", scanned, "--home", tmp_path / "home", "run", *scan]
    done = subprocess.run(
        [*command, "--runner", "local"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize(
    "arguments",
    [
        ("status", "--token-file", "x"),
        ("status", "--interval", "5"),
        ("status", "--watch", "--all"),
    ],
)
def test_options_that_would_do_nothing_are_refused(arguments, tmp_path):
    # A scan that ended: a watch of it would end, too.
    home = open_home(tmp_path / "home", create=True)
    ended = ScanProgress(own_process(), time.time(), 0, 0, ended_at=time.time() + 60, end="done")
    write_progress(home.progress, ended)
    result = CliRunner().invoke(app, [*arguments, "--home", str(home.path)])
    assert result.exit_code == 2
    assert arguments[-1 if arguments[-1].startswith("--") else -2] in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [("status", "--json", "--format", "csv"), ("--json", "--format", "csv", "status")],
)
def test_json_and_another_format_exclude_each_other(arguments):
    result = CliRunner().invoke(app, [*arguments])
    assert result.exit_code == 2
    assert "--json excludes --format csv" in result.output


def test_a_former_name_of_an_option_is_understood(tmp_path):
    home = tmp_path / "home"
    plans = [
        CliRunner().invoke(
            app,
            ["plan", "-m", "small:digits_vgg7", option, "128", "--json", "--home", str(home)],
            catch_exceptions=False,
        )
        for option in ("--images-per-score", "--batch-size")
    ]
    assert plans[0].exit_code == plans[1].exit_code == 0
    assert plans[0].stdout == plans[1].stdout
    assert '"batches": 15' in plans[0].stdout
    assert "--batch-size" not in rendered("plan", "--help")
    other = CliRunner().invoke(app, ["status", "--batch-size", "128"])
    assert other.exit_code == 2
    assert "--batch-size" in other.output
