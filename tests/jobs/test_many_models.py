"""Figures of more models than can be looked at: they show fewer, or say how many."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from typer.testing import CliRunner

from jobs.cli.main import app
from tests.analysis.homes import Builder

pytestmark = pytest.mark.slow(seconds=3)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store eight runs of two families."""
    path = tmp_path_factory.mktemp("many") / "home"
    rng = np.random.default_rng(0)
    with Builder(path) as store:
        for place in range(8):
            name = f"net{place}"
            scores = rng.uniform(size=(2, 6 + place))
            store(name, scores, architecture=name, family=("VGG", "ResNet")[place % 2])
    return path


@pytest.mark.parametrize(
    ("verb", "limit", "shown"),
    [
        ("cluster", "analysis.answers.clusters.SignatureClusters.most", "The last 2 merges of 7"),
        (
            "neighbours --novelty",
            "analysis.answers.neighbours.FamilyNovelty.most",
            "The 3 most unlike",
        ),
        ("neighbours", "analysis.figures.neighbours.MOST_ROWS", "8 rows: the option family"),
    ],
)
def test_a_figure_of_many_models_is_cut_or_gives_their_number(
    home, tmp_path, monkeypatch, verb, limit, shown
):
    figure = tmp_path / "figure.svg"
    asked = [*verb.split(), "--home", str(home), "--figure", str(figure)]

    def text() -> str:
        result = CliRunner().invoke(app, asked)
        assert result.exit_code == 0, result.stderr
        return " ".join((each.text or "").strip() for each in ElementTree.parse(figure).iter())

    assert shown not in text()
    monkeypatch.setattr(limit, 3)
    assert shown in text()
