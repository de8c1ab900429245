"""Flags and ridges reach every question: what is left out, what is marked, and how many."""

from __future__ import annotations

import typing

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from analysis.answers.clusters import SignatureClusters
from analysis.answers.material import Material
from analysis.answers.paper_comparison import PaperNumbers
from analysis.contrasts.drift_between_runs import drift
from analysis.data.frames import layers, models, signatures
from analysis.data.provenance import carried, provenance_of
from analysis.data.selection import Selection
from catalog.open_home import open_home
from catalog.store.queries import flag_counts, run_sites, signatures_overview
from catalog.store.reader import query
from jobs.cli.main import app
from survey.errors import SettingsError
from survey.results import FLAGS, LEFT_OUT, Flag
from tests.analysis.homes import Builder

SITES = [0.4, 0.5, 0.6, 0.7]


def flagged(*flags: tuple[str, ...]) -> dict[str, list[tuple[str, ...]]]:
    return {"flags": list(flags)}


@pytest.fixture
def home(tmp_path):
    """Two absolute runs and two relative ones, with flags at some sites."""
    ridge, few = ("few_images", "ridge"), ("few_images",)
    with Builder(tmp_path) as store:
        for name in ("vgg7", "vgg9"):
            cells = flagged((), ridge, few, ())
            store(f"{name}-absolute", SITES, cells, architecture=name)
            store(f"{name}-relative", SITES, cells, architecture=name, ridge="relative")
    return tmp_path


def test_every_flag_has_a_meaning() -> None:
    assert set(FLAGS) == set(typing.get_args(Flag)) > LEFT_OUT


def test_sites_that_the_ridge_decides_are_left_out_and_others_marked(home) -> None:
    frame = signatures(home, Selection(ridges="absolute"))
    one = frame[frame["run_id"] == "vgg7-absolute"]
    assert list(one["affinity"].isna()) == [False, True, False, False]
    assert list(one["flags"]) == [(), ("few_images", "ridge"), ("few_images",), ()]
    made_from = provenance_of(carried(frame[["model"]].copy(), frame))
    assert made_from == provenance_of(frame)
    # What would be a mark of a score is no reason to leave one out.
    assert made_from.left_out == {"ridge": 2}
    assert made_from.marked == {"few_images": 2}
    assert "2 ridge" in made_from.caption()
    assert len(made_from.notes()) == 2
    # Of one of the runs alone the counts are that run's.
    assert provenance_of(one).marked == {"few_images": 1}
    kept = signatures(home, Selection(ridges="absolute"), keep_flagged=True)
    assert provenance_of(kept).left_out == {}
    assert provenance_of(kept).marked == {"ridge": 2, "few_images": 4}


@pytest.mark.parametrize("flag", sorted(FLAGS))
def test_every_flag_reaches_the_caption_of_a_question(tmp_path, flag: Flag) -> None:
    scored = flag in {"few_images", "rounding", "ridge"}
    affinity = [0.4, 0.5, 0.6 if scored else np.nan]
    with Builder(tmp_path) as store:
        for name in ("vgg7", "vgg9"):
            store(name, affinity, flagged((), (), (flag,)), architecture=name)
    made_from = provenance_of(signatures(tmp_path))
    is_marked = scored and flag not in LEFT_OUT
    assert made_from.marked == ({flag: 2} if is_marked else {})
    assert made_from.left_out == ({} if is_marked else {flag: 2})
    (note,) = made_from.notes()
    assert flag in note


def test_a_part_of_the_kept_frames_is_counted_anew(home) -> None:
    selection = Selection(ridges="*", newest=False)
    frame = Material(home, selection).signatures
    whole = carried(frame[["model"]].copy(), frame)
    assert provenance_of(whole) == provenance_of(signatures(home, selection))
    part = frame[frame["run_id"] == "vgg7-absolute"]
    counted = carried(part[["model"]].copy(), part).attrs
    assert (whole.attrs["runs"], counted["runs"]) == (4, 1)
    assert (whole.attrs["left_out"], counted["left_out"]) == (
        {"ridge": 2},
        {"ridge": 1},
    )
    assert len(whole.attrs["conditions"]) == 2
    assert counted["conditions"] == ["64 images a score, ridge absolute"]
    assert whole.attrs["mixed"] == {"ridge": ["absolute", "relative"]}
    assert counted["mixed"] == {}


def test_the_flag_ridge_means_nothing_under_the_relative_one(home) -> None:
    frame = signatures(home, Selection(ridges="relative"))
    assert frame["affinity"].notna().all()
    assert provenance_of(frame).marked == {"few_images": 4}
    for ridge, times in (("relative", 0), ("absolute", 2)):
        batches = layers(home, Selection(ridges=ridge), columns=["flags"])
        assert sum("ridge" in flags for flags in batches["flags"]) == times
    opened = open_home(home, create=False)
    for name, expected in (("relative", ["few_images"]), ("absolute", ["few_images", "ridge"])):
        assert run_sites(opened, f"vgg7-{name}")["flags"][1].as_py() == expected


def test_answers_say_how_many_sites_are_left_out(home) -> None:
    answer = SignatureClusters(Material(home, Selection(ridges="absolute")))
    assert provenance_of(answer.rows).left_out["ridge"] == 2
    assert list(answer.matrix.runs["sites"]) == [3, 3]


def test_answers_say_how_many_images_would_do(home) -> None:
    # The sites have 16 channels.
    frame = signatures(home, Selection(ridges="absolute"))
    for part in (frame, carried(frame[["model"]].copy(), frame)):
        assert provenance_of(part).enough_images == 17
        assert any(
            "few_images" in note and "17 images" in note for note in provenance_of(part).notes()
        )
    none = provenance_of(frame[frame["site"] == 0])
    assert (none.enough_images, none.notes()) == (None, [])


def test_what_run_and_status_print_names_the_flags(home) -> None:
    rows = {
        row["run_id"]: row for row in signatures_overview(open_home(home, create=False)).to_pylist()
    }
    assert rows["vgg7-absolute"]["flags"] == "few_images 2, ridge 1"
    # Under the relative ridge that flag means nothing.
    assert rows["vgg7-relative"]["flags"] == "few_images 2"
    assert {row["images_per_score"] for row in rows.values()} == {64}
    printed = CliRunner().invoke(app, ["status", "--home", str(home)]).stderr
    assert "8 sites marked as few_images" in printed
    assert "17 images a score would do" in printed
    one = CliRunner().invoke(app, ["show", "vgg9-relative", "--home", str(home)]).stderr
    assert "2 sites marked as few_images" in one
    Builder(home)("clean", SITES)
    assert flag_counts(open_home(home, create=False), ["clean"]) == ({}, None)


@pytest.mark.parametrize("ridge", ["absolute", "relative"])
def test_drift_does_not_test_what_the_ridge_decides(tmp_path, ridge: str) -> None:
    store = Builder(tmp_path)
    store("one", [SITES, SITES], flagged((), (), ("few_images",), ()), ridge=ridge)
    # The second and the third site move; the ridge decides the second one's new score.
    moved = [0.4, 0.6, 0.7, 0.7]
    store("two", [moved, moved], flagged((), ("ridge",), (), ()), ridge=ridge)
    moves = drift(tmp_path)
    rows = moves.rows.set_index("site").sort_index()
    out = ridge == "absolute"
    second = "left out" if out else "moved"
    assert list(rows["verdict"]) == ["stayed", second, "moved", "stayed"]
    assert list(rows["flags"]) == [(), ("ridge",) if out else (), ("few_images",), ()]
    assert rows["p"].isna()[1] == rows["affinity_after"].isna()[1] == out
    assert len(moves.news) == moves.tests - 2 == (1 if out else 2)
    made_from = provenance_of(moves.rows)
    assert made_from.left_out == ({"ridge": 1} if out else {})
    assert made_from.marked == {"few_images": 1}
    assert made_from.conditions == (f"64 images a score, ridge {ridge}",)


def test_two_ridges_are_never_mixed_unasked(home) -> None:
    for read in (signatures, models):
        frame = read(home)
        assert set(frame["ridge"]) == {"relative"}
        assert "without 2 runs of the absolute ridge" in provenance_of(frame).caption()
        assert set(read(home, Selection(newest=False))["ridge"]) == {"relative"}
    # Most models count, not the newest run nor the most repeats.
    store = Builder(home)
    store("more", SITES, architecture="vgg11")
    for read in (signatures, models):
        assert set(read(home)["ridge"]) == {"absolute"}
        asked = read(home, Selection(ridges="*", newest=False))
        assert set(asked["ridge"]) == {"absolute", "relative"}


def test_the_views_hold_what_the_frames_hold(home) -> None:
    Builder(home)("fewer-images", SITES, architecture="vgg7", images_per_score=32, ridge="relative")
    Builder(home)("failed", SITES, architecture="vgg7", status="failed")
    # Until most models have it, the absolute ridge stays out.
    for _ in range(2):
        opened, frame = open_home(home, create=False), signatures(home)
        seen = query(opened, "FROM latest_signatures ORDER BY architecture, run_id, site")
        table = seen.to_pandas()
        table["flags"] = [tuple(each) for each in table["flags"]]
        shared = [name for name in table if name in frame]
        alone = {"model", "checkpoint_name", "dataset_name", "label", "tags"}
        assert set(frame) - set(shared) <= alone
        pd.testing.assert_frame_equal(table[shared], frame[shared], check_like=True)
        rows = query(opened, "FROM models ORDER BY run_id").to_pandas()
        expected = models(home).sort_values("run_id").reset_index(drop=True)
        facts = [name for name in rows if name in expected]
        pd.testing.assert_frame_equal(rows[facts], expected[facts])
        means = frame.groupby("run_id")["affinity"].mean()
        assert dict(zip(rows["run_id"], rows["affinity"], strict=True)) == pytest.approx(
            {run_id: means.get(run_id, np.nan) for run_id in rows["run_id"]}, nan_ok=True
        )
        Builder(home)("more", SITES, flagged((), ("ridge",), (), ()), architecture="vgg11")
        Builder(home)("most", SITES, architecture="vgg13")


def test_the_papers_numbers_are_compared_under_the_papers_ridge(home, tmp_path_factory) -> None:
    weights = {"source": "torchvision", "architecture": "vgg11"}
    weights["checkpoint"] = "torchvision:vgg11/IMAGENET1K_V1"
    store = Builder(home)
    affinity = np.array(SITES)
    for ridge, sign in (("absolute", 1), ("relative", -1)):
        metrics = {"cka": 0.5 + sign * affinity / 10, **flagged((), ("ridge",), (), ())}
        store(f"paper-{ridge}", affinity, metrics, ridge=ridge, **weights)
    rows = PaperNumbers(Material(home)).rows
    cka = rows[(rows["table"] == "table2") & (rows["quantity"] == "cka")]
    assert list(cka["ours"]) == pytest.approx([1.0])
    assert list(cka["n"]) == [4]
    other = tmp_path_factory.mktemp("relative")
    Builder(other)("one", SITES, ridge="relative", **weights)
    with pytest.raises(SettingsError, match="absolute") as caught:
        _ = PaperNumbers(Material(other)).rows
    assert "ridge absolute" in str(caught.value.hint)
