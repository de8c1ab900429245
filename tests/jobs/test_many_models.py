"""Figures of more models than can be looked at: they show fewer, or the answer says how many."""

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
    ("verb", "limit", "note", "shown"),
    [
        (["cluster"], "cluster.MOST_LEAVES", "has 3 leaves", "The last 2 merges of 7"),
        (
            ["neighbours", "--novelty"],
            "neighbours.MOST_ROWS",
            "shows the 3 most",
            "The 3 most unlike",
        ),
        (["neighbours"], "neighbours.MOST_ROWS", "has 8 rows: --family", "net7"),
    ],
)
def test_a_figure_of_many_models_is_cut_or_remarked_on(
    home, tmp_path, monkeypatch, verb, limit, note, shown
):
    figure = tmp_path / "figure.svg"
    asked = [*verb, "--home", str(home), "--figure", str(figure)]

    def answer() -> tuple[str, str]:
        found = CliRunner().invoke(app, asked)
        assert found.exit_code == 0, found.stderr
        texts = ElementTree.parse(figure).iter()
        words = " ".join((each.text or "").strip() for each in texts)
        return found.stderr, words

    assert "note: the figure" not in answer()[0]
    monkeypatch.setattr(f"jobs.cli.{limit}", 3)
    told, words = answer()
    assert f"note: the figure {note}" in told
    assert shown in words
