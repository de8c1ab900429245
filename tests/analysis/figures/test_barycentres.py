"""Barycentres: every member's curve and the mean it lies around, a panel a cluster."""

from __future__ import annotations

import pytest

from analysis.figures import barycentre_chart, barycentre_rows
from analysis.figures.files.vega import specification
from analysis.similarity.distances import distance_matrix
from tests.analysis.figures.drawn import marks, words
from tests.analysis.figures.frames import surveyed, with_gaps
from tests.analysis.similarity.made_curves import barycentres


@pytest.fixture(scope="module")
def fitted():
    return barycentres(distance_matrix(with_gaps(surveyed(9), 3), "raw", cache=False), 3)


def test_rows_hold_every_signature_in_its_cluster_and_every_barycentre(fitted):
    rows = barycentre_rows(fitted)
    members = rows[rows["kind"] == "member"]
    clusters = members.drop_duplicates("run_id").set_index("run_id")["cluster"]
    assert clusters.to_dict() == fitted.table.set_index("run_id")["cluster"].to_dict()
    for curve in fitted.matrix.curves:
        group = members[members["run_id"] == curve.run_id]
        assert group["affinity"].tolist() == curve.values.tolist()
        assert group["relative_depth"].tolist() == curve.depths.tolist()
    middles = rows[rows["kind"] == "barycentre"]
    assert middles["affinity"].tolist() == fitted.curves["affinity"].tolist()
    assert middles["cluster"].tolist() == fitted.curves["cluster"].tolist()


def test_a_site_without_a_score_breaks_its_members_curve_and_no_other(fitted):
    rows = barycentre_rows(fitted)
    pieces = rows.groupby("run_id")["piece"].nunique()
    assert pieces[fitted.matrix.runs["run_id"][0]] == 2
    assert (pieces.drop(fitted.matrix.runs["run_id"][0]) == 1).all()
    # A line a piece, and a barycentre in each panel.
    assert len(marks(barycentre_chart(fitted), "line")) == (9 + 1) + 3


def test_the_title_says_what_the_barycentres_are_and_the_panels_whose(fitted):
    shown = words(barycentre_chart(fitted))
    medians = fitted.curves.groupby("cluster")["affinity"].median()
    low, high = (f"{medians[n]:.2f} (cluster {n})" for n in (medians.idxmin(), medians.idxmax()))
    assert f"{low} to {high}" in shown
    for number, group in fitted.table.groupby("cluster"):
        assert f"cluster {number} (n = {len(group)})" in shown
    assert "all models; 9 runs" in shown
    one = words(barycentre_chart(barycentres(fitted.matrix, 1)))
    assert "9 models around one barycentre" in one


def test_every_panel_has_the_fixed_axis(fitted):
    text = str(specification(barycentre_chart(fitted)))
    fixed = "'field': 'affinity', 'scale': {'domain': [0, 1], 'nice': False}"
    assert text.count("'field': 'affinity'") == text.count(fixed) == 3 * 2


def test_models_of_no_family_and_of_one_site_are_drawn():
    sites = surveyed(3).assign(family=None, family_group=None)
    few = sites[(sites["model"] != "vgg_1") | (sites["site"] == 0)].reset_index(drop=True)
    drawn = barycentre_chart(barycentres(distance_matrix(few, "raw", cache=False), 1))
    assert "unknown" in words(drawn)
    assert len(marks(drawn, "symbol")) == 1
