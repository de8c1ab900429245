"""Packages outside the tree bring a dataset kind, a model source and a runner; broken ones stop
none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.command import ROOT, SurveyProcess

TOY = """
from catalog.datasets import DatasetInfo, DatasetKind
from catalog.datasets.kinds.random import RandomDataset
from catalog.models import Architecture, InputTransform
from survey.errors import UnknownName

STRIPES = DatasetKind(
    names=(DatasetInfo(syntax="stripes", sentence="Eight images.", images=8, classes=0),),
    open=lambda request: RandomDataset(request.name, 8),
)


def build():
    from torch import nn

    return nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 6 * 6, 10))


class ToySource:
    name = "toy"

    def names(self):
        return ["net"]

    def get(self, name):
        if name != "net":
            raise UnknownName("toy network", name, self.names())
        transform = InputTransform(size=8, resize=8)
        return Architecture("toy", "net", "Toy", 10, transform, build=build)

    def published(self):
        return ()
"""

RUNNER = """
from jobs.planning.worker_layout import Devices, Machine
from jobs.runners.events import Host
from jobs.runners.worker import run_task


class ToyRunner:
    name = "toy"

    def __init__(self, options):
        self.machines = [Machine("toy machine", cores=1)]
        self.devices = Devices("cpu", workers=1, threads=1)

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        pass

    def run(self, source):
        host = Host("cpu", "a toy", 1, "toyland", 1)
        while tasks := source.next_tasks(host):
            for task in tasks:
                for event in run_task(task, "cpu", 1):
                    yield (event,)
                    if source.is_withdrawn(task.run_id):
                        break
"""

CONTRACT = """
from catalog.contract_tests.dataset_kind import DatasetKindContract
from catalog.contract_tests.model_source import ModelSourceContract
from jobs.contract_tests.runner import RunnerContract
from toy_runner import ToyRunner
from toy_zoo import STRIPES, ToySource


class TestStripes(DatasetKindContract):
    kind = STRIPES


class TestToy(ModelSourceContract):
    source = ToySource()


class TestToyRunner(RunnerContract):
    separate_processes = False

    def make_runner(self, options):
        return ToyRunner(options)
"""


def install(folder: Path, package: str, kind: str, source: str, runner: str) -> None:
    """Lay out what an installed package leaves beside its modules."""
    info = folder / f"{package}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[model_zoo_survey.datasets]\n{package} = {kind}\n"
        f"[model_zoo_survey.sources]\n{package} = {source}\n"
        f"[model_zoo_survey.runners]\n{package} = {runner}\n"
    )


@pytest.fixture(scope="module")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packages")
    (folder / "toy_zoo.py").write_text(TOY)
    (folder / "toy_runner.py").write_text(RUNNER)
    (folder / "test_toy.py").write_text(CONTRACT)
    broken = ("no_such_module:KIND", "no_such_module:SOURCE", "no_such_module:RUNNER")
    clash = (
        *("catalog.datasets.kinds.digits:KIND", "catalog.models:TimmSource"),
        "jobs.runners.local:LocalRunner",
    )
    install(folder, "a_broken", *broken)
    install(folder, "a_clash", *clash)
    install(folder, "toy_zoo", "toy_zoo:STRIPES", "toy_zoo:ToySource", "toy_runner:ToyRunner")
    return folder


def python(packages: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Run Python beside the packages, with a home of its own there."""
    home, paths = packages / "home", os.pathsep.join([str(packages), str(ROOT)])
    ended = subprocess.run(
        [sys.executable, *arguments],
        cwd=packages,
        env={**os.environ, "SURVEY_HOME": str(home), "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == code, f"exit code {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return ended


@pytest.fixture(scope="module")
def survey(packages: Path) -> Iterator[SurveyProcess]:
    with SurveyProcess(packages, packages / "home", packages) as process:
        yield process


@pytest.mark.long
def test_they_keep_the_contracts(packages: Path) -> None:
    python(packages, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_toy.py")


def test_they_are_listed_beside_ours(survey: SurveyProcess) -> None:
    datasets = json.loads(survey("datasets", "--format", "json").stdout)
    names = [row["dataset"] for row in datasets]
    assert names[-1] == "stripes"
    assert names.count("digits") == 1
    (net,) = json.loads(survey("models", "toy:*", "--format", "json").stdout)
    assert (net["architecture"], net["family"], net["classes"]) == ("toy:net", "Toy", 10)


def test_they_are_surveyed(survey: SurveyProcess) -> None:
    options = ("--dataset", "stripes", "--checkpoint", "init:0", "--batch-size", "4")
    survey("run", "--model", "toy:net", *options, "--runner", "toy")
    sql = "SELECT architecture, dataset, count(affinity) AS sites FROM signatures GROUP BY ALL"
    (row,) = json.loads(survey("sql", sql, "--format", "json").stdout)
    assert row == {"architecture": "net", "dataset": "stripes", "sites": 1}


def test_another_name_is_answered_with_what_is_near_or_broken(packages: Path) -> None:
    code = """
import pathlib
from catalog.datasets import open_dataset
from catalog.model_facts import show_model
from catalog.models.selection import select
from survey.errors import UnknownName

for ask in (
    lambda: select("toy:nett"),
    lambda: select("theirs:net"),
    lambda: open_dataset("stripe", pathlib.Path()),
    lambda: open_dataset("theirs", pathlib.Path()),
):
    try:
        ask()
    except UnknownName as unknown:
        print(unknown.hint)
print(show_model("toy:net")["source"][0])
"""
    answers = python(packages, "-c", code).stdout.splitlines()
    net, broken_source, stripes, broken_kind, package = answers
    assert "toy:net" in net
    assert "no_such_module:SOURCE of a_broken 1.0" in broken_source
    assert "stripes" in stripes
    assert "no_such_module:KIND of a_broken 1.0" in broken_kind
    assert package == "toy_zoo"


def test_a_runner_measures_what_the_local_one_does(packages: Path, survey: SurveyProcess) -> None:
    network = ("--model", "small:digits_resnet14", "--limit", "512", "--batch-size", "256")
    sql = "SELECT site_name, batch, affinity, cka FROM batch_scores ORDER BY ALL"
    rows = []
    for runner in ("toy", "local"):
        home = ("--home", str(packages / f"by_{runner}"))
        survey("run", *network, "--runner", runner, "--threads", "1", *home)
        rows.append(json.loads(survey("sql", sql, "--format", "json", *home).stdout))
    assert rows[0]
    assert rows[0] == rows[1]
    ended = survey("run", *network, "--runner", "theirs", code=2)
    assert "no_such_module:RUNNER of a_broken 1.0" in ended.stderr


def test_the_doctor_names_the_broken_ones(packages: Path) -> None:
    code = """
from pathlib import Path
from jobs.operations.doctor import CHECKS

for finding in CHECKS["extensions"](Path()):
    print(finding.state, finding.detail)
"""
    *broken, last = python(packages, "-c", code).stdout.splitlines()
    assert len(broken) == 6
    assert all(line.startswith("attention") for line in broken)
    for entry in ("no_such_module:KIND", "no_such_module:SOURCE", "no_such_module:RUNNER"):
        assert any(entry in line for line in broken)
    assert last == "ok 3 extensions of installed packages"
