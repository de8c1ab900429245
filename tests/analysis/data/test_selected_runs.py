"""Frames read from the copy of a home are those of its store, whatever came since."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.data.selected_runs import SelectedRuns
from analysis.data.selection import Selection
from catalog.copied_home import copy_of
from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.tags import RunLabels
from tests.analysis.homes import Builder

pytestmark = pytest.mark.slow(seconds=6)

SELECTIONS = (
    Selection(),
    Selection(untrained=True, newest=False, ridges="*"),
    Selection(models="*net1*", tags="epoch>=2"),
)


#: Status, attempt and hour of the end, of which one changes at a time: each tells that a run did.
STEPS = (("done", 1, 0), ("failed", 1, 0), ("failed", 2, 0), ("done", 2, 0), ("done", 2, 20))


def measure(
    home: Home, rng: np.random.Generator, numbers: list[int], status: str, attempt: int, hour: int
) -> None:
    """Store runs of a few networks on two datasets; one of a number that is there goes on."""
    with Builder(home.path) as build:
        for number in numbers:
            build.number = hour + number
            scores = rng.random((2, 2 + number % 3))
            scores[rng.random(scores.shape) < 0.2] = np.nan
            flags = [("few_images", "ridge"), ("few_images",), (), ()]
            build(
                f"r{number}",
                scores,
                {"cka": rng.random(scores.shape[1]), "flags": flags},
                status=status,
                attempt=attempt,
                architecture=f"net{number % 4}",
                dataset=("folder:/data/a", "folder:/data/b")[number % 2],
                checkpoint=("file:/w/one_5.pth", "file:/w/one_6.pth", "init:0")[number % 3],
                ridge=("relative", "relative", "absolute", None)[number % 4],
                year=(2015, None)[number % 2],
            )


def assert_alike(home: Home) -> None:
    copy_of(home).update()
    for selection in SELECTIONS:
        kept, anew = (SelectedRuns(home.path, selection, copied=each) for each in (True, False))
        frames = [
            (each.models(), each.signatures(), each.signatures("main", keep_flagged=True))
            for each in (kept, anew)
        ]
        for mine, theirs in zip(*frames, strict=True):
            pd.testing.assert_frame_equal(mine, theirs, rtol=1e-12, atol=0)
            assert mine.attrs == theirs.attrs
        order = ["run_id", "site", "status", "reason"]
        gaps = [each.gaps().sort_values(order, ignore_index=True) for each in (kept, anew)]
        pd.testing.assert_frame_equal(*gaps)


def test_what_is_kept_and_what_is_new_are_what_is_stored(tmp_path) -> None:
    rng = np.random.default_rng(0)
    home = Builder(tmp_path).home
    for step in STEPS:
        # Of every selection there is something.
        measure(home, rng, [1, 4, 5, 9, *rng.integers(12, 16, size=2).tolist()], *step)
        ids = {f"r{number}": int(rng.integers(2, 5)) for number in (1, 4, 5, 9)}
        with Registry(home) as registry:
            registry.labels.set(
                {
                    run: RunLabels(model=(None, "mine")[epoch % 2], tags={"epoch": epoch})
                    for run, epoch in ids.items()
                }
            )
        assert_alike(home)


def test_frames_of_a_copy_do_not_change_between_updates(tmp_path) -> None:
    build = Builder(tmp_path)
    build("a", [0.1, 0.2])
    copy_of(build.home).update()
    build("b", [0.3], architecture="vgg7")
    selected = SelectedRuns(tmp_path, copied=True)
    assert list(selected.models()["run_id"]) == list(selected.signatures()["run_id"].unique())
    assert list(selected.models()["run_id"]) == ["a"]
    copy_of(build.home).update()
    assert list(SelectedRuns(tmp_path, copied=True).models()["run_id"]) == ["a", "b"]
