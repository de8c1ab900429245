"""What a fresh interpreter loads: nothing heavy before there is something to do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from catalog.models.timm import TimmSource
from catalog.models.torchvision import TorchvisionSource
from catalog.open_home import open_home
from survey.extensions import GROUPS
from tests.style.repository import ROOT

pytestmark = pytest.mark.slow(seconds=9)

HEAVY = ("torch", "ray", "duckdb", "sqlalchemy", "pandas", "altair", "timm", "fastapi", "uvicorn")


def loaded_after(code: str, *folders: Path) -> set[str]:
    """Return the top-level packages a fresh interpreter holds after running ``code``."""
    report = "\nimport json, sys\nprint('\\n' + json.dumps(sorted(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code + report],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [ROOT, *folders]))},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return {name.split(".")[0] for name in json.loads(result.stdout.splitlines()[-1])}


def command(*arguments: str, code: int = 0) -> str:
    """Return code that runs the command line, which must end with an exit code."""
    return (
        "import sys\n"
        f"sys.argv = {['survey', *arguments]!r}\n"
        "from jobs.cli.main import main\n"
        "try:\n"
        "    code = main()\n"
        "except SystemExit as end:\n"
        "    code = end.code\n"
        f"assert (code or 0) == {code}, code\n"
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
        ("linearise",),
        ("schedule", "tick"),
        ("serve",),
        ("token", "add"),
    ],
)
def test_help_loads_nothing_heavy(verb: tuple[str, ...]) -> None:
    loaded = loaded_after(command(*verb, "--help"))
    assert "jobs" in loaded
    assert not loaded & set(HEAVY)


@pytest.mark.parametrize("verb", [("--help",), ("status",), ("sql", "SELECT 1")])
def test_short_verbs_load_neither_torch_nor_extensions(
    verb: tuple[str, ...], tmp_path: Path
) -> None:
    home = open_home(tmp_path / "home", create=True).path
    (tmp_path / "toy_extension.py").touch()
    info = tmp_path / "toy_extension-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy_extension\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\ntoy = toy_extension:TOY\n" for group in GROUPS.values())
    )
    loaded = loaded_after(command("--home", str(home), *verb), tmp_path)
    assert not loaded & {"torch", "ray", "pandas", "altair", "timm", "toy_extension"}


def test_a_wrong_name_is_refused_before_anything_heavy_is_loaded(tmp_path: Path) -> None:
    TimmSource().names(), TorchvisionSource().names()
    names = ("resnet1888", "--checkpoint", "init:0", "--dataset", "digits")
    wrong = ("run", "--home", str(tmp_path / "home"), "--model", *names)
    loaded = loaded_after(command(*wrong, code=2))
    assert not loaded & {*HEAVY, "pyarrow", "numpy"}


def test_a_plan_of_published_networks_loads_neither_library(tmp_path: Path) -> None:
    TimmSource().names(), TorchvisionSource().names()
    models = ("--model", "torchvision:resnet18", "--model", "timm:convnext_atto")
    weights = ("--checkpoint", "init:0", "--dataset", "digits", "--limit", "64")
    size = ("--images-per-score", "64", "--home", str(tmp_path / "home"))
    loaded = loaded_after(command("plan", *models, *weights, *size))
    assert not loaded & {"torch", "torchvision", "timm", "ray"}


def test_an_idle_schedule_loads_no_store(tmp_path: Path) -> None:
    home = open_home(tmp_path / "home", create=True).path
    loaded = loaded_after(command("schedule", "tick", "--home", str(home)))
    assert not loaded & {"torch", "ray", "duckdb", "pyarrow", "scipy"}


def test_the_process_of_a_query_loads_neither_torch_nor_pandas() -> None:
    code = (
        "import io, duckdb\n"
        "from jobs.operations.sql_worker import write_result\n"
        "for form in ('table', 'json', 'csv', 'parquet'):\n"
        "    write_result(duckdb.sql('SELECT now(), \\'a\\', [1]'), form, io.BytesIO(), 9)\n"
    )
    loaded = loaded_after(code)
    assert "pyarrow" in loaded
    assert not loaded & {"torch", "ray", "pandas", "timm", "typer", "sqlalchemy"}


def test_a_loaded_package_is_seen() -> None:
    assert "json" in loaded_after("import json")


def test_tests_of_means_load_no_library_of_distributions() -> None:
    modules = (
        "analysis.contrasts.drift_between_runs, analysis.relations.metric_correlations,"
        " analysis.relations.accuracy_regressions, analysis.relations.score_shapes"
    )
    loaded_after(f"import {modules}, sys\nassert 'scipy.stats' not in sys.modules")
