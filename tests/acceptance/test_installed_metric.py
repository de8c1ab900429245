"""A metric from a package outside the tree is measured, stored and shown as ours are."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.command import ROOT, SurveyProcess
from tests.acceptance.test_packages import python

TOY = """
import math

from survey.metrics.base import Metric, NoValue, Quantity


def gain(pair):
    before, after = pair.x.mean_variance, pair.y.mean_variance
    if before == 0 or after == 0:
        return NoValue("a variance is zero")
    return 0.5 * math.log(after / before)


GAIN = Quantity(
    name="toy_gain",
    sentence="How much larger the output's deviation is, as a logarithm.",
    formula="log sqrt(|Yc|^2 / |Xc|^2)",
    unit="1",
    low=-math.inf,
    high=math.inf,
    direction="none",
    invariances=frozenset({
        "images", "pairing", "channels", "channels_output", "rotation", "rotation_input",
        "rotation_output", "scale", "shift", "shift_input", "shift_output",
    }),
    source="none",
    least_images=2,
    compute=gain,
)
METRIC = Metric("toy", (GAIN,))


def changed(**fields):
    import dataclasses

    return Metric("another", (dataclasses.replace(GAIN, **fields),))


CLASH = changed(name="cka")
CRASHING = changed(name="toy_crash", compute=lambda pair: [].pop())


def __getattr__(name):
    if name == "UNNAMED":
        return changed(name="Toy Gain")
    raise AttributeError(name)
"""

CONTRACT = """
from survey.contract_tests.metric import MetricContract
from toy_metrics import METRIC


class TestToy(MetricContract):
    metric = METRIC
"""

ENTRIES = """
[model_zoo_survey.metrics]
a_missing = toy_metrics:NOTHING
b_clash = toy_metrics:CLASH
d_unnamed = toy_metrics:UNNAMED
e_no_metric = toy_metrics:GAIN
toy = toy_metrics:METRIC
toy_again = toy_metrics:METRIC
toy_crash = toy_metrics:CRASHING
"""

ASKED = ("-d", "digits[:256]", "--images-per-score", "64", "--runner", "local")
GAINS = "SELECT run_id, toy_gain, cka, notes FROM batch_scores ORDER BY run_id, batch, site"


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("metrics")
    (folder / "toy_metrics.py").write_text(TOY)
    (folder / "test_toy.py").write_text(CONTRACT)
    info = folder / "toy_metrics-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-metrics\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    return folder


def rows(ended: subprocess.CompletedProcess[str]) -> list[dict[str, Any]]:
    answer: list[dict[str, Any]] = json.loads(ended.stdout)
    return answer


def test_it_keeps_the_contract(packages: Path) -> None:
    python(packages, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_toy.py")


def test_broken_ones_are_known_with_their_reasons(packages: Path) -> None:
    code = "from survey.metrics import broken; [print(b.entry, b.reason) for b in broken()]"
    lines = python(packages, "-c", code).stdout.splitlines()
    assert [line.split()[0] for line in lines] == [
        f"toy_metrics:{name}" for name in ("NOTHING", "CLASH", "UNNAMED", "GAIN", "METRIC")
    ]
    for line, reason in zip(lines, ("NOTHING", "'cka'", "small letters"), strict=False):
        assert reason in line


@pytest.mark.slow(seconds=60)
@pytest.mark.long
def test_from_a_home_without_it_to_one_with_it_and_back(packages: Path) -> None:
    home = packages / "home"
    # The package is installed where one of them looks, and not where the other does.
    with SurveyProcess(packages, home, packages) as survey, SurveyProcess(ROOT, home) as without:
        there_and_back(packages, survey, without)


def there_and_back(packages: Path, survey: SurveyProcess, without: SurveyProcess) -> None:
    small = ("run", "-m", "small:digits_vgg7", *ASKED)
    without(*small)
    (before,) = rows(without("sql", "FROM runs", "--format", "json"))
    # Installed, and nothing is stored of it yet.
    values = rows(survey("sql", GAINS, "--format", "json"))
    assert {row["toy_gain"] for row in values} == {None}
    run_id = before["run_id"]
    shown = survey("show", run_id, "--metrics").stdout
    assert {"toy_gain", "r2_heldout"} <= set(shown.split())
    # It makes no run stale, and gives no run another name.
    again = survey(*small)
    assert rows(survey("sql", "FROM runs", "--format", "json")) == [before]
    assert "new" not in again.stderr
    # What is measured from now on has it; a metric that fails is a note.
    survey("run", "-m", "small:digits_vgg9", *ASKED)
    values = rows(survey("sql", GAINS, "--format", "json"))
    assert all((row["toy_gain"] is None) == (row["run_id"] == run_id) for row in values)
    assert {row["notes"][-1] for row in values if row["run_id"] != run_id} == {
        "toy_crash: IndexError: pop from empty list"
    }
    (other,) = {row["run_id"] for row in values} - {run_id}
    shown = survey("show", other, "--metrics").stdout
    assert "toy_gain" in shown
    shown_and_reported(packages, survey)
    # Where it is not installed any more, all of it can be read, and measuring goes on.
    assert rows(without("sql", GAINS, "--format", "json")) == values
    means = rows(without("show", other, "--format", "json"))
    assert all(isinstance(row["toy_gain"], float) for row in means)
    without("run", "-m", "small:digits_plain14", *ASKED)
    comments = (
        "SELECT table_name, comment FROM duckdb_columns() WHERE column_name = 'toy_gain'"
        " AND table_name = 'batch_scores'"
    )
    (stored,) = rows(without("sql", comments, "--format", "json"))
    assert stored["comment"] == "How much larger the output's deviation is, as a logarithm."
    means = rows(without("show", other, "--format", "json"))
    assert all(isinstance(row["toy_gain"], float) for row in means)


def shown_and_reported(packages: Path, survey: SurveyProcess) -> None:
    """Look on, which loads no extension, and write a report, which lists the metric."""
    code = """
import sys
from typer.testing import CliRunner
from jobs.cli.main import app
for verb in (["--help"], ["status"], ["sql", "SELECT run_id, cka FROM signatures"]):
    assert CliRunner().invoke(app, verb).exit_code == 0
assert not {"torch", "toy_metrics"} & set(sys.modules)
"""
    python(packages, "-c", code)
    survey("report", "--out", str(packages / "report"))
    pages = [page.read_text("utf-8") for page in (packages / "report" / "models").glob("*.html")]
    # A column that is empty for all of a run's sites is left out of its page.
    assert [page.count("toy gain") > 0 for page in pages].count(True) == 1
    assert len(pages) == 2


def test_the_page_on_metrics_has_it(packages: Path) -> None:
    page = python(packages, "-m", "docs.generate.metrics_page").stdout
    assert "| `toy_gain` | How much larger" in page
