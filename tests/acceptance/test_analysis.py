"""Clusters, neighbours, correlations, regressions, history, comparisons: the command line."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pytest
import typer
from pyarrow.parquet import read_table

from analysis import layers, models, signatures
from analysis.answers import ANSWERS
from analysis.answers.relations import MetricCorrelations
from analysis.choices import PAPER_METRICS
from analysis.contrasts.checkpoints import robustness
from analysis.contrasts.residual_networks import residual_contrast, twins
from analysis.contrasts.training_shift import training_shift
from analysis.data.selection import Selection
from analysis.paper.compare import compare_paper, surveyed_rows
from analysis.relations.accuracy_regressions import regressions
from analysis.relations.metric_correlations import correlations
from analysis.relations.score_shapes import shapes
from analysis.relations.timeline import timeline
from analysis.report.data import ReportMaterial
from analysis.report.sections import PAGES, section
from analysis.similarity.clusters import cluster
from analysis.similarity.distances import distance_matrix
from analysis.similarity.family_predictions import family_predictions
from analysis.similarity.novelty import novelty
from jobs.cli.main import app
from tests.acceptance.command import ROOT, survey
from tests.analysis.homes import Builder
from tests.docs.notebook import code_cells
from tests.docs.notebook import run as run_notebook

pytestmark = pytest.mark.slow(seconds=60)

VERBS = ("cluster", "neighbours", "correlate", "regress", "timeline")
KINDS = ("residual", "twins", "datasets", "checkpoints", "training", "distributions", "paper")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store eleven runs: two families, two datasets, three kinds of weights, one failure."""
    path = tmp_path_factory.mktemp("zoo") / "home"
    rng = np.random.default_rng(0)
    with Builder(path) as store:

        def add(name: str, sites: int, level: float, run_id: str = "", **values: Any) -> None:
            scores = np.clip(rng.normal(level, 0.05, (3, sites)), 0, 1)
            metrics = {each: rng.uniform(size=(3, sites)) for each in PAPER_METRICS}
            basics = {"architecture": name, "source": "torchvision", "measured_top1": level}
            basics |= {"checkpoint": f"torchvision:{name}/IMAGENET1K_V1", "parameters": 10 * sites}
            repeats = [1 + site % 2 for site in range(sites)] if "resnet" in name else ()
            run_id = run_id or f"{name}-{values.get('dataset', '')}"
            store(run_id, scores, metrics, repeats=repeats, **{**basics, **values})

        vgg: dict[str, Any] = {"family": "VGG", "family_group": "pre-residual", "year": 2014}
        resnet: dict[str, Any] = {"family": "ResNet", "family_group": "residual", "year": 2015}
        for place, name in enumerate(("vgg11", "vgg13", "vgg16", "vgg19")):
            add(name, 8 + place, 0.3 + place / 100, **vgg)
        for place, name in enumerate(("resnet18", "resnet34", "resnet50")):
            add(name, 9 + 2 * place, 0.8 + place / 100, **resnet)
        add("vgg11", 8, 0.3, dataset="flowers", **vgg)
        add("resnet18", 9, 0.6, "untrained", checkpoint="init:0", **resnet)
        add("resnet18", 9, 0.8, "swav", checkpoint="ssl:swav", **resnet)
        add("vgg19", 9, 0.8, "broken", checkpoint="init:1", status="failed", **vgg)
    return path


def answer(*arguments: str | Path, home: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads(
        survey(*arguments, "--format", "json", home=home).stdout
    )
    return rows


def same(rows: list[dict[str, Any]], frame: Any, columns: tuple[str, ...]) -> None:
    """Check that rows hold what the notebook's function returned."""
    assert len(rows) == len(frame) > 0
    for column in columns:
        for row, expected in zip(rows, frame[column], strict=True):
            value = np.nan if row[column] is None else row[column]
            if isinstance(value, str):
                assert value == str(expected)
            else:
                assert value == pytest.approx(float(expected), nan_ok=True)


def test_every_answer_is_that_of_the_notebook(home: Path) -> None:
    measured, known = signatures(home), models(home)
    matrix = distance_matrix(measured, cache=False)
    table = cluster(matrix).table.sort_values("leaf")
    same(answer("cluster", home=home), table, ("model", "cluster", "silhouette"))
    rows = answer("neighbours", "--families", home=home)
    same(rows, family_predictions(matrix), ("model", "nearest_model", "distance"))
    rows = answer("neighbours", "--novelty", home=home)
    same(rows, novelty(matrix), ("model", "novelty"))
    both = signatures(home, Selection(untrained=True))
    wider = distance_matrix(both, cache=False)
    rows = answer("neighbours", "--families", "--untrained", home=home)
    same(rows, family_predictions(wider, untrained=True), ("model", "nearest_model"))
    rows = answer("neighbours", "--novelty", "--untrained", home=home)
    same(rows, novelty(wider, untrained=True), ("model", "novelty"))
    every = correlations(measured)
    for level in ("model", "family", "all"):
        same(answer("correlate", "--level", level, home=home),
             every[every["level"] == level], ("name", "pearson", "p_corrected"))  # fmt: skip
    assert {row["unit"] for row in answer("correlate", home=home)} == {MetricCorrelations.unit}
    rows = answer("regress", "--all", "--permutations", "99", home=home)
    same(rows, regressions(measured, known[known["status"] == "done"], 99), ("r2", "p", "p_picked"))
    same(answer("timeline", home=home), timeline(measured), ("model", "lowest", "year"))
    for kind, function in (
        ("residual", residual_contrast),
        ("checkpoints", robustness),
        ("training", training_shift),
        ("distributions", shapes),
    ):
        frame = function(both if kind == "training" else measured)
        numbers = tuple(frame.select_dtypes("number").columns)
        same(answer("compare", kind, home=home), frame, numbers)
    assert len(twins(measured)) == 0 == len(answer("compare", "twins", home=home))
    ours = surveyed_rows(compare_paper(measured, known, layers(home)))
    same(answer("compare", "paper", home=home), ours, ("name", "paper", "ours", "ours_error"))


def test_the_command_line_and_the_report_give_the_same_numbers(home: Path) -> None:
    material = ReportMaterial(home)
    tables = {each.name: each for page in PAGES for each in section(material, page).tables}
    compared = 0
    for kind in ANSWERS:
        shown = [each for each in tables.values() if kind.caption and each.caption == kind.caption]
        if not (kind.command and shown):
            continue
        rows = answer(*kind.command.split(), home=home)
        (table,) = shown
        assert len(table.rows) == len(rows) > 0, kind.command
        for row, cells in zip(rows, table.rows, strict=True):
            for column, cell in zip(table.columns, cells, strict=True):
                if isinstance(value := row[column.name], float):
                    assert cell.key == repr(value), (kind.command, column.name)
                    compared += 1
    assert compared > 300


def test_the_nearest_of_one_model_are_its_own(home: Path) -> None:
    rows = answer("neighbours", "vgg16", "--number", "3", home=home)
    assert [row["rank"] for row in rows] == [1, 2, 3]
    assert {row["model"] for row in rows} == {"vgg16"}
    assert all(row["other_family"] == "VGG" for row in rows)
    # All ten finished runs were looked at, not the few that are shown.
    assert "9 runs" in survey("neighbours", "vgg16", home=home).stderr


def test_filters_choose_the_runs(home: Path) -> None:
    def shown(*filters: str) -> set[str]:
        return {row["model"] for row in answer("timeline", *filters, home=home)}

    resnets = {"resnet18@IMAGENET1K_V1", "resnet18@ssl:swav"}
    assert shown("--family", "resnet", "-m", "resnet18") == resnets
    every = {*resnets, "resnet18@init:0"}
    assert shown("--family", "resnet", "-m", "resnet18", "--untrained") == every
    assert shown("--group", "pre-residual", "-d", "flowers") == {"vgg11"}
    assert shown("--set", "paper", "--family", "ResNet") == {"resnet18", "resnet34", "resnet50"}
    assert shown("--checkpoint", "init:*") == {"resnet18"}
    assert shown("-m", "vgg16", "-m", "vgg13") == {"vgg13", "vgg16"}
    assert (
        "model vgg16 or vgg13" in survey("timeline", "-m", "vgg16", "-m", "vgg13", home=home).stderr
    )


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("timeline", "-m", "vgg61"), "did you mean vgg19 or vgg16"),
        (("cluster", "--family", "Resnets"), "did you mean ResNet"),
        (("correlate", "--dataset", "flower"), "did you mean flowers"),
        (("regress", "--set", "papers"), "did you mean paper"),
        (("correlate", "--metric", "ckaa"), "did you mean cka"),
        (("neighbours", "vgg61"), "did you mean"),
        (("neighbours", "vgg16", "--novelty"), "MODEL and --novelty exclude each other"),
        (("cluster", "--clusters", "99"), "99 clusters of 9 models"),
        (("compare", "datasets", "--reference", "flower"), "did you mean flowers"),
        (("compare", "twins", "--reference", "flowers"), "--reference goes with datasets"),
        (("compare", "twins", "--all"), "--all goes with paper"),
        (("timeline", "--figure", "x.eps"), ".svg"),
        (("timeline", "--role", "gate"), "no selected run has gate sites"),
        (("timeline", "-c", "init:1"), "none of 1 selected runs"),
    ],
)
def test_what_cannot_be_answered_is_refused(
    home: Path, arguments: tuple[str, ...], words: str
) -> None:
    ended = survey(*arguments, home=home, code=2)
    assert words in ended.stderr
    assert ended.stdout == ""


@pytest.mark.parametrize("verb", [*VERBS, "compare paper"])
def test_a_home_without_finished_runs_says_what_to_do(tmp_path: Path, verb: str) -> None:
    Builder(tmp_path)
    ended = survey(*verb.split(), home=tmp_path, code=2).stderr
    assert "nothing was measured" in ended
    assert "survey run" in ended


def test_the_table_goes_where_and_as_it_is_told(home: Path, tmp_path: Path) -> None:
    rows = answer("timeline", home=home)
    printed = survey("timeline", "--format", "csv", home=home).stdout
    assert [row["model"] for row in csv.DictReader(io.StringIO(printed))] == [
        row["model"] for row in rows
    ]
    ended = survey("timeline", "--output", tmp_path / "t.parquet", home=home)
    assert ended.stdout == ""
    assert f"9 rows written to {tmp_path / 't.parquet'}" in ended.stderr
    assert read_table(tmp_path / "t.parquet").to_pylist() == rows


def test_every_answer_says_what_it_was_made_from(home: Path) -> None:
    hashes = set()
    for verb in (*VERBS, *(f"compare {kind}" for kind in KINDS if kind != "paper")):
        caption = survey(*verb.split(), home=home).stderr.splitlines()[-1]
        # Training is compared with the run of random weights.
        runs = "10 runs" if verb == "compare training" else "9 runs"
        assert caption.startswith("all models"), verb
        assert f"; {runs} (ids" in caption, verb
        assert ("without 1 run of random weights" in caption) is (verb != "compare training"), verb
        hashes |= set(re.findall(r"hash to (\w{12})", caption))
    assert len(hashes) == 2
    some = survey("timeline", "--family", "VGG", home=home).stderr
    assert "family VGG; 5 runs" in some
    assert hashes.isdisjoint(re.findall(r"hash to (\w{12})", some))


@pytest.mark.parametrize(
    "verb",
    [
        *VERBS,
        "cluster --stability 3 --clusters 2",
        pytest.param("cluster --kmeans --clusters 2", marks=pytest.mark.long),
        "neighbours vgg16",
        "neighbours --families",
        "neighbours --novelty",
        "correlate --level model",
        "correlate --compare-paper",
        "regress --compare-paper",
        *(f"compare {kind}" for kind in KINDS if kind != "twins"),
    ],
)
def test_figures_are_drawn_with_their_caption(home: Path, tmp_path: Path, verb: str) -> None:
    ended = survey(*verb.split(), "--figure", tmp_path / "f.svg", home=home)
    assert f"figure written to {tmp_path / 'f.svg'}" in ended.stderr
    drawn = (tmp_path / "f.svg").read_text()
    (runs_hash,) = re.findall(r"hash to (\w{12})", ended.stderr)
    assert drawn.startswith("<svg")
    # That of training is of the architectures that were measured with both kinds of weights.
    assert (runs_hash in drawn) is (verb != "compare training")


@pytest.mark.parametrize(
    ("verb", "title"),
    [
        # It compiles another library for ten seconds.
        pytest.param("cluster --kmeans --clusters 2", "barycentre", marks=pytest.mark.long),
        ("neighbours --families", "predicted"),
    ],
)
def test_a_figure_is_of_what_was_asked(home: Path, tmp_path: Path, verb: str, title: str) -> None:
    survey(*verb.split(), "--figure", tmp_path / "f.svg", home=home)
    assert title in (tmp_path / "f.svg").read_text()


def test_one_model_is_compared_with_none_in_a_word(home: Path) -> None:
    for verb in ("neighbours", "neighbours vgg16", "neighbours --families"):
        ended = survey(*verb.split(), "-m", "vgg16", "--format", "json", home=home)
        assert "0 of 0" not in ended.stderr
        assert all(row["distance"] is None for row in json.loads(ended.stdout))


def test_ours_beside_the_paper_is_what_correlate_and_regress_print(home: Path) -> None:
    every = answer("compare", "paper", home=home)
    split = [
        row
        for verb in ("correlate", "regress")
        for row in answer(verb, "--compare-paper", home=home)
    ]
    assert [row for row in every if row["table"] in ("table1", "table2")] == [
        row for row in split if row["table"] != "fig4"
    ]
    assert {row["table"] for row in split} == {"table1", "table2", "fig4"}
    assert len(answer("compare", "paper", "--all", home=home)) == 2 * 220
    assert "table2 on digits" in survey("compare", "paper", home=home).stderr


def test_the_notebook_runs(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    (tmp_path / "survey-home").symlink_to(home)
    monkeypatch.chdir(tmp_path)
    # The made-up home has other names than the bundled networks.
    text = (
        json.dumps(notebook).replace("digits_resnet*", "resnet*").replace("digits_plain*", "vgg*")
    )
    results = run_notebook(json.loads(text))
    assert "9 runs" in results[0][0]
    values = [value for _, value in results]
    frames = [value for value in values if isinstance(value, pd.DataFrame)]
    drawn = [value for value in values if isinstance(value, alt.TopLevelMixin)]
    assert (len(values), len(drawn)) == (len(code_cells(notebook)), 2)
    assert len(frames) == len(values) - 3
    assert all(len(frame) for frame in frames)


def test_the_notebook_has_the_outputs_of_the_bundled_networks() -> None:
    notebook = json.loads((ROOT / "docs" / "notebook.ipynb").read_text(encoding="utf-8"))
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert "digits_resnet20" in json.dumps([cell["outputs"] for cell in cells])
    for cell in cells:
        compile("".join(cell["source"]), "<cell>", "exec")


@pytest.mark.parametrize("verb", [*VERBS, "compare"])
def test_every_verb_and_option_is_documented(verb: str) -> None:
    text = (ROOT / "docs" / "analysis.md").read_text(encoding="utf-8")
    assert f"survey {verb}" in text
    group = typer.main.get_command(app)
    command = group.get_command(None, verb)  # type: ignore[attr-defined]
    options = {name for each in command.params for name in each.opts}
    shared = {
        "--help",
        "--home",
        "--format",
        "--json",
        "-m",
        "-c",
        "-d",
        "-o",
        "-n",
        "name",
        "kind",
    }
    assert [name for name in options - shared if f"`{name}" not in text] == []


@pytest.mark.parametrize("kind", KINDS)
def test_every_comparison_is_documented(kind: str) -> None:
    assert f"`{kind}`" in (ROOT / "docs" / "analysis.md").read_text(encoding="utf-8")


def test_drift_is_asked_and_answered_as_the_others(home: Path, tmp_path: Path) -> None:
    path = tmp_path / "drift.csv"
    verb = ("drift", "--source", "torchvision", "--set", "paper", "--output", path)
    ended = survey(*verb, "--family", "VGG", "--family", "ResNet", home=home)
    with path.open() as stream:
        architectures = {row["architecture"] for row in csv.DictReader(stream)}
    assert {"vgg16", "resnet34"} <= architectures
    assert ended.stdout == ""
    assert f"rows written to {path}" in ended.stderr
    assert "no run fits" in survey("drift", "--source", "timm", home=home, code=2).stderr


def test_what_cannot_be_computed_is_not_given_as_a_number(home: Path) -> None:
    shown = survey("cluster", "--family", "VGG", home=home).stderr
    assert "adjusted Rand" not in shown
    shown = survey("correlate", "--model", "vgg16", home=home).stderr
    assert "1 architecture, without random weights: CKA" in shown
    rows = answer("compare", "residual", "--family", "VGG", home=home)
    assert all(row["difference"] is None for row in rows)


def test_a_year_that_nobody_knows_is_one(tmp_path: Path) -> None:
    with Builder(tmp_path) as store:
        store("a", np.full((1, 6), 0.5), architecture="a", source="s")
    assert "1 model of unknown year.\n" in survey("timeline", home=tmp_path).stderr
