"""Labels and tags in frames, and conditions on tags in selections."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.data.frames import layers, models, signatures
from analysis.data.run_tags import run_column, with_tag_columns
from analysis.data.selection import Selection
from analysis.data.tag_conditions import all_hold
from catalog.registry.registry import Registry
from catalog.tags import RunLabels, Tags
from survey.errors import SettingsError, UnknownName
from tests.analysis.homes import Builder

TAGS: Tags = {"epoch": 30, "lr": 0.1, "optimiser": "AdamW", "frozen": True, "version": "30"}


@pytest.mark.parametrize(
    ("conditions", "holds"),
    [
        ("epoch", True),
        ("seed", False),
        ("epoch=30", True),
        ("epoch=30.0", True),
        ("tags.epoch=30", True),
        ("epoch = 3e1", True),
        ("epoch=3*", False),
        ("lr=0.10", True),
        ("lr!=0.1", False),
        ("seed!=0", False),
        ("epoch>=30", True),
        ("epoch>30", False),
        ("epoch<100", True),
        ("optimiser>1", False),
        ("optimiser=adam*", True),
        ("optimiser!=sgd", True),
        ("frozen=true", True),
        ("frozen=1", False),
        ("version=30", True),
        ('version="30"', True),
        ("epoch=10 epoch=30", True),
        ("epoch=10 epoch=20", False),
        ("epoch=30 lr=0.2", False),
        ("epoch>10 epoch<20", False),
        ("epoch>10 epoch<50 lr=0.1 lr=0.2", True),
    ],
)
def test_a_condition_compares_numbers_as_numbers(conditions: str, holds: bool) -> None:
    pieces = [conditions] if " = " in conditions else conditions.split()
    assert all_hold(pieces, TAGS) is holds


@pytest.mark.parametrize("condition", ["", "=3", "a b", "epoch=", "epoch>=", "epoch>high", "!lr"])
def test_a_condition_that_means_nothing_is_refused_at_once(condition: str) -> None:
    with pytest.raises(SettingsError, match="the tag"):
        Selection(tags=condition)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    with Builder(tmp_path / "home") as build:
        for run_id in ("r0", "r1", "r2"):
            build(run_id, [0.5, 0.6], architecture=run_id)
    with Registry(build.home) as registry:
        registry.labels.set(
            {
                "r0": RunLabels("First", tags={"epoch": 0, "lr": 0.1}),
                "r1": RunLabels(None, "second", tags={"epoch": 30, "note": "x"}),
            }
        )
    return tmp_path / "home"


def test_frames_have_labels_and_tags(study: Path) -> None:
    runs = models(study)
    assert list(runs["label"]) == ["First", "second", None]
    assert list(runs["model"]) == ["First", "second", "r2"]
    assert list(runs["tags"]) == [{"epoch": 0, "lr": 0.1}, {"epoch": 30, "note": "x"}, {}]
    for frame in (signatures(study), layers(study, columns=("affinity",))):
        assert list(frame["label"]) == ["First"] * 2 + ["second"] * 2 + [None] * 2
        assert frame["tags"].iloc[2] == {"epoch": 30, "note": "x"}


def test_a_selection_takes_runs_by_their_tags(study: Path) -> None:
    assert list(models(study, Selection(tags="epoch"))["run_id"]) == ["r0", "r1"]
    assert list(models(study, Selection(tags="epoch>=1"))["run_id"]) == ["r1"]
    chosen = signatures(study, Selection(tags=("epoch=0", "lr<1"), models="r*"))
    assert set(chosen["run_id"]) == {"r0"}
    assert chosen.attrs["selection"] == "model r*, tag epoch=0, lr<1"
    with pytest.raises(SettingsError, match="no run fits the tag 'epoch=31'") as caught:
        models(study, Selection(tags="epoch=31"))
    assert "epoch=30" in (caught.value.hint or "")


def test_a_tag_is_a_column_by_its_name(study: Path) -> None:
    runs = models(study)
    assert list(run_column(runs, "tags.epoch")) == [0, 30, None]
    assert list(run_column(runs, "lr")) == [0.1, None, None]
    assert list(run_column(runs, "architecture")) == ["r0", "r1", "r2"]
    with pytest.raises(UnknownName) as caught:
        run_column(runs, "tags.epohc")
    assert "tags.epoch" in (caught.value.hint or "")
    with pytest.raises(UnknownName) as caught:
        run_column(runs.assign(tags=[{}] * len(runs)), "tags.epoch")
    assert "survey tag" in (caught.value.hint or "")


def test_a_table_of_runs_gets_a_column_a_tag_of_one_kind_each() -> None:
    tags = [{"n": 1, "x": 1}, {"n": 0.5, "x": "y"}, {}]
    runs = pd.DataFrame(
        {"run_id": list("abc"), "model": list("klm"), "label": ["A", None, None], "tags": tags}
    )
    table = with_tag_columns(pd.DataFrame({"run_id": ["b", "a", "b", "z"]}), lambda: runs)
    assert list(table) == ["run_id", "label", "tags.n", "tags.x"]
    assert list(table["label"].fillna("-")) == ["-", "A", "-", "-"]
    assert list(table["tags.n"].fillna(-1)) == [0.5, 1.0, 0.5, -1]
    assert list(table["tags.x"].fillna("-")) == ["y", "1", "y", "-"]
    unlabelled = runs.assign(label=None, tags=[{}] * 3)
    assert list(with_tag_columns(table[["run_id"]], lambda: unlabelled)) == ["run_id"]
    by_model = with_tag_columns(pd.DataFrame({"model": ["l", "all"]}), lambda: runs)
    assert list(by_model["tags.n"].fillna(-1)) == [0.5, -1]
    assert list(with_tag_columns(pd.DataFrame({"family": ["a"]}), lambda: runs)) == ["family"]
