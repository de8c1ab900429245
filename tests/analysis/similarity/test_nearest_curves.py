"""The nearest curves are those of the distances of all pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from analysis.choices import NORMALISATION
from analysis.data.few_runs import curves_of
from analysis.similarity.nearest_curves import nearest_curves
from analysis.similarity.signature_curve import normalised
from analysis.statistics.dtw import squared_sums
from catalog.copied_home import copy_of
from catalog.home import Home
from tests.analysis.homes import Builder


@pytest.fixture
def curves() -> pa.Table:
    """Curves of few numbers of sites, some of which lack a value, and one that has none."""
    drawn = np.random.default_rng(0)
    lists: list[list[float | None]] = []
    for size in drawn.choice([1, 2, 7, 8, 49], 60):
        values: list[float | None] = drawn.random(size).tolist()
        if size > 1 and drawn.random() < 0.5:
            values[drawn.integers(size)] = None
        lists.append(values)
    # Two that are equally near to all others.
    lists += [[None, None], lists[3], lists[3]]
    affinity = pa.array(lists, pa.list_(pa.float64()))
    return pa.table({"run_id": [f"r{n}" for n in range(len(lists))], "affinity": affinity})


def test_they_are_those_of_all_distances(curves: pa.Table) -> None:
    prepared = {}
    for row in curves.to_pylist():
        values = np.array(row["affinity"], float)
        sites = np.flatnonzero(np.isfinite(values))
        if sites.size:
            depths = sites / max(len(values) - 1, 1)
            prepared[row["run_id"]] = normalised(values[sites], NORMALISATION, depths=depths)
    names = list(prepared)
    for name in names:
        others = [each for each in names if each != name]
        pairs = [(0, place) for place in range(1, len(names))]
        sums = squared_sums([prepared[name], *(prepared[each] for each in others)], pairs)
        expected = [others[place] for place in np.argsort(sums, kind="stable")]
        assert nearest_curves(curves, name, 5) == expected[:5]
        assert nearest_curves(curves, name, 99) == expected
    # That which has no value, and one that is not there.
    assert nearest_curves(curves, "r60", 5) == nearest_curves(curves, "none", 5) == []
    assert nearest_curves(curves.slice(0, 0), "r1", 5) == []


def test_rows_of_a_part_are_its_own(curves: pa.Table) -> None:
    part = curves.slice(10, 30)
    assert nearest_curves(part, "r12", 40) == [
        each for each in nearest_curves(curves, "r12", 99) if each in part["run_id"].to_pylist()
    ]


def test_a_home_where_no_run_counts_has_no_curves(tmp_path: Path) -> None:
    with Builder(tmp_path) as build:
        build("r1", [], status="failed")
    home = Home(tmp_path)
    copy_of(home).update()
    assert nearest_curves(curves_of(home), "r1", 5) == []
