"""A report of more models than a page can show: figures show some, their files hold the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.answers import clusters, neighbours
from analysis.report import pages
from analysis.report.data import ReportMaterial
from analysis.report.sections import section
from catalog.open_home import open_home
from catalog.store.reader import query
from tests.analysis.figures.drawn import title, words
from tests.analysis.homes import Builder

pytestmark = pytest.mark.slow(seconds=4)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Store twelve runs of three families."""
    path = tmp_path_factory.mktemp("many") / "home"
    rng = np.random.default_rng(0)
    with Builder(path) as store:
        for place in range(12):
            family = ("VGG", "ResNet", "ViT")[place % 3]
            name = f"{family.lower()}{place}"
            store(name, rng.uniform(size=(2, 6 + place)), architecture=name, family=family)
    return path


def test_the_overview_shows_some_and_its_files_hold_those(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    material = ReportMaterial(home)
    (whole,) = pages.overview_exhibits(material)
    assert whole.rows()["run_id"].nunique() == 12
    monkeypatch.setattr(pages, "MOST_SIGNATURES", 6)
    (exhibit,) = pages.overview_exhibits(material)
    shown = set(exhibit.rows()["run_id"])
    assert len(shown) == 6
    assert set(query(open_home(home, create=False), exhibit.sql)["run_id"].to_pylist()) == shown
    assert "6 of 12 models shown" in words(exhibit.chart())
    assert title(exhibit.chart()) == title(whole.chart())


def test_clusters_are_shown_by_few_leaves_representatives_and_the_most_unlike(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clusters.SignatureClusters, "most", 5)
    monkeypatch.setattr(neighbours.FamilyNovelty, "most", 4)
    monkeypatch.setattr(clusters, "MOST_IN_MATRIX", 8)
    monkeypatch.setattr(clusters, "STABILITY_DRAWS", 1)
    page = section(ReportMaterial(home), "clusters")
    exhibits = {each.name: each for each in page.exhibits}
    tree, heat, odd = (exhibits[name] for name in ("dendrogram", "distances", "novelty"))
    assert [len(each.rows()) for each in (tree, heat, odd)] == [3 * 4, 3 * 3, 4]
    assert "The last 4 merges of 11" in words(tree.chart())
    assert "12 models" in page.finding
    assert "The 4 most unlike of 12" in words(odd.chart())
    # The tables keep every model.
    tables = {each.name: len(each.rows) for each in page.tables}
    assert tables["clusters"] == tables["novelty"] == 12
