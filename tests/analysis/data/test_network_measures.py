"""Frames of the measures of whole networks hold what a home has, values and reasons."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis import measure_scores, network_measures
from analysis.data.provenance import provenance_of
from analysis.data.selection import Selection
from survey.network_measures.base import NetworkScore
from tests.analysis.homes import Builder

RESTING = {"conventions": {"gate": "merged as a sum"}, "log10_paths": 2.0}
LENGTHS = {
    "path_length_normalised": NetworkScore(2.5, details=RESTING),
    "path_length": NetworkScore(7.0, details=RESTING),
}


@pytest.fixture
def home(tmp_path: Path) -> Path:
    with Builder(tmp_path) as store:
        store("a", [0.4], architecture="a", measures=LENGTHS)
        sampled = NetworkScore(1.5, standard_error=0.1, samples=512)
        loop = NetworkScore(None, "a recurrent layer")
        store("b", [0.4], architecture="b", measures={"path_length": loop, "a_later": sampled})
        store("c", [0.4], architecture="c")
        store("d", [0.4], architecture="d", checkpoint="init:0", measures=LENGTHS)
    return tmp_path


def test_a_row_a_run_has_a_column_a_measure(home: Path) -> None:
    frame = network_measures(home)
    assert list(frame["run_id"]) == ["a", "b"]
    named = ["path_length", "path_length_normalised", "a_later", "a_later_error", "conventions"]
    assert [name for name in frame if name in named] == named
    assert frame.loc[0, named[:2]].tolist() == [7.0, 2.5]
    assert frame.loc[0, "conventions"] == "gate: merged as a sum"
    assert frame.loc[1, named[:2]].isna().all()
    assert frame.loc[1, ["a_later", "a_later_error"]].tolist() == [1.5, 0.1]
    assert {"model", "family", "dataset", "label", "tags"} <= set(frame)
    assert provenance_of(frame).runs == 2


def test_reasons_stand_beside_values(home: Path) -> None:
    frame = measure_scores(home, Selection(untrained=True))
    assert frame.groupby("run_id").size().to_dict() == {"a": 2, "b": 2, "d": 2}
    (lacking,) = frame[frame["value"].isna()].to_dict("records")
    assert (lacking["measure"], lacking["reason"]) == ("path_length", "a recurrent layer")
    assert lacking["details"] == {}
    assert frame.loc[0, "details"] == RESTING


def test_a_home_without_measures_has_empty_frames(tmp_path: Path) -> None:
    with Builder(tmp_path) as store:
        store("c", [0.4])
    for frame in (measure_scores(tmp_path), network_measures(tmp_path)):
        assert isinstance(frame, pd.DataFrame)
        assert frame.empty
        assert "run_id" in frame
