"""Random weights stand for no family and no trend, in no question, unless they are asked for."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.answers.clusters import SignatureClusters
from analysis.answers.contrasts import TrainingShift
from analysis.answers.material import Material
from analysis.answers.network_measures import NetworkMeasures
from analysis.answers.relations import AccuracyRegressions
from analysis.answers.trend import AffinityByDepth, AffinityTimeline, AffinityTrends
from analysis.contrasts.drift_between_runs import drift
from analysis.data.frames import signatures
from analysis.data.provenance import provenance_of
from analysis.data.selection import Selection
from analysis.report.data import ReportMaterial
from analysis.report.pages import missing_section, overview_page
from analysis.report.sections import section
from tests.analysis.figures.drawn import words
from tests.analysis.homes import Builder

TRAINED, RANDOM = 5, 7


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Five trained networks of one family, and the same and others of random weights."""
    path = tmp_path_factory.mktemp("untrained")
    rng = np.random.default_rng(0)
    with Builder(path) as store:
        for place in range(RANDOM):
            facts = {"architecture": f"net{place}", "family": "Net", "year": 2012 + place}
            facts |= {"family_group": "residual", "measured_top1": 0.5 + place / 100}
            sites = 6 + place
            if place < TRAINED:
                store(f"t{place}", rng.uniform(0.3, 0.4, (2, sites)), **facts)
            random = rng.uniform(0.8, 0.9, (2, sites))
            store(f"r{place}", random, checkpoint="init:0", **facts)
    return path


def test_training_compares_with_them_and_drift_with_every_run(home: Path) -> None:
    rows = TrainingShift(Material(home)).rows
    assert provenance_of(rows).runs == TRAINED + RANDOM
    assert (rows["level"] != "all").sum() == TRAINED
    assert len(drift(home).rows) == TRAINED + RANDOM


def test_the_caption_of_training_counts_the_runs_that_are_shown(home: Path) -> None:
    (drawing,) = TrainingShift(Material(home)).drawings()
    assert f"; {2 * TRAINED} runs (" in words(drawing.chart())


def test_a_glob_that_names_them_asks_for_them(home: Path) -> None:
    for globs in ({"checkpoints": "init:*"}, {"models": "*@init:0"}):
        chosen = signatures(home, Selection(**globs))
        assert set(chosen["run_id"]) == {f"r{place}" for place in range(RANDOM)}
        assert provenance_of(chosen).untrained_alone
    both = signatures(home, Selection(checkpoints=("bundled", "init:0")))
    assert both["run_id"].nunique() == TRAINED + RANDOM


def test_where_nothing_else_was_measured_the_answer_says_so(tmp_path: Path) -> None:
    with Builder(tmp_path) as store:
        for name in "abc":
            store(name, [[0.4, 0.5], [0.5, 0.6]], architecture=name, checkpoint="init:0")
    made_from = provenance_of(SignatureClusters(Material(tmp_path)).rows)
    assert made_from.runs == 3
    assert [note for note in made_from.notes() if "Every run is of random weights" in note]


def test_a_report_has_pages_of_all_and_answers_of_the_trained(home: Path) -> None:
    material = ReportMaterial(home)
    assert len(material.models) == TRAINED + RANDOM
    assert material.signatures["run_id"].nunique() == TRAINED
    assert set(material.signatures["model"]) <= set(material.models["model"])
    missing = missing_section(material)
    overview = overview_page(material, "zoo", [], missing)
    assert "7 runs of random weights" in overview.values["lead"]
    assert len(overview.values["models"].rows) == TRAINED + RANDOM
    page = section(material, "timeline")
    assert len(page.tables[0].rows) == TRAINED
    assert any("7 runs of random weights" in each for each in page.paragraphs)


def test_a_trend_of_a_report_counts_the_runs_of_its_answer(home: Path) -> None:
    plain, report = (AffinityTrends(kind(home), "year") for kind in (Material, ReportMaterial))
    assert list(report.details()) == list(plain.details()) == []
    assert report.rows.equals(plain.rows)


def test_a_finding_needs_more_than_chance_and_rounding(home: Path) -> None:
    for kind in (AffinityTimeline, AffinityByDepth):
        assert "no trend" in kind(Material(home)).finding()


def test_answers_about_training_alone_leave_them_out_though_asked_for(home: Path) -> None:
    asked = Material(home, Selection(untrained=True))
    plain, every = (AccuracyRegressions(each) for each in (Material(home), asked))
    assert "Random weights are left out." in every.details()
    assert "Random weights are left out." not in plain.details()
    assert every.rows["n"].tolist() == plain.rows["n"].tolist()
    measures = NetworkMeasures(asked)
    assert measures.details() == ["Random weights are left out."]
    assert measures.finding().startswith("No selected run of trained weights has a measure")
