"""What a fresh interpreter loads: nothing heavy before there is something to do."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.style.repository import ROOT

HEAVY = ("torch", "ray", "duckdb", "sqlalchemy", "pandas", "timm")


def loaded_after(code: str) -> set[str]:
    """Return the top-level packages a fresh interpreter holds after running ``code``."""
    report = "\nimport json, sys\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code + report],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return {name.split(".")[0] for name in json.loads(result.stdout.splitlines()[-1])}


def command(*arguments: str) -> str:
    """Return code that runs the command line, which must end with exit code 0."""
    return (
        "import sys\n"
        f"sys.argv = {['survey', *arguments]!r}\n"
        "from jobs.cli.main import main\n"
        "try:\n"
        "    code = main()\n"
        "except SystemExit as end:\n"
        "    code = end.code\n"
        "assert code in (0, None), code\n"
    )


def test_importing_survey_loads_no_torch() -> None:
    loaded = loaded_after("import survey")
    assert "survey" in loaded
    assert not loaded & {*HEAVY, "numpy", "scipy"}


def test_importing_the_values_loads_no_torch() -> None:
    assert not loaded_after("from survey import MeasureSettings; MeasureSettings()") & set(HEAVY)


def test_importing_the_catalog_of_models_loads_no_torch() -> None:
    assert not loaded_after("import catalog.models, catalog.datasets") & set(HEAVY)


def test_importing_analysis_loads_nothing_heavy() -> None:
    loaded = loaded_after("import analysis.figures, analysis.studies.catalogue")
    assert not loaded & {*HEAVY, "altair"}


@pytest.mark.parametrize(
    "verb",
    [
        (),
        ("run",),
        ("plan",),
        ("status",),
        ("show",),
        ("sql",),
        ("cluster",),
        ("compare",),
        ("activations",),
        ("schedule", "tick"),
    ],
)
def test_help_loads_nothing_heavy(verb: tuple[str, ...]) -> None:
    loaded = loaded_after(command(*verb, "--help"))
    assert "jobs" in loaded
    assert not loaded & set(HEAVY)


def test_a_loaded_package_is_seen() -> None:
    assert "json" in loaded_after("import json")
