"""Stopping at a precision, on real networks with real images."""

from __future__ import annotations

import math
import shutil

import pytest

from tests.acceptance.command import rows, survey
from tests.acceptance.test_real_data import NETWORKS, asking_for, whole
from tests.shared_data import shared

__all__ = ["whole"]

PRECISION = 0.01

SITES = """
SELECT site, avg(affinity) AS mean, stddev_samp(affinity) / sqrt(count(affinity)) AS error,
  count(affinity) AS batches
FROM batch_scores WHERE run_id = '{}' GROUP BY site ORDER BY site
"""


def sites(home, run_id):
    return rows(SITES.format(run_id), home)


@pytest.mark.slow(seconds=60)
@pytest.mark.long
@pytest.mark.real_data
@pytest.mark.parametrize(("whole", "depth"), [(n, n) for n in NETWORKS], indirect=["whole"])
def test_a_precise_signature_needs_fewer_images_and_is_the_full_one(whole, depth, tmp_path):
    home = tmp_path / "home"
    shutil.copytree(whole, home)
    survey(*asking_for(depth), "--precision", str(PRECISION), home=home)
    (short,) = rows("SELECT * FROM runs WHERE precision IS NOT NULL", home)
    assert 10 <= short["batches"] < 20
    assert short["images"] == 128 * short["batches"] < 2560
    assert short["precision"] == PRECISION
    assert short["reached_precision"] <= PRECISION
    few = sites(home, short["run_id"])
    assert max(site["error"] for site in few) == pytest.approx(short["reached_precision"])
    (full,) = rows("SELECT * FROM runs WHERE precision IS NULL", home)
    assert (full["images"], full["batches"]) == (2560, 20)
    for mine, its in zip(few, sites(home, full["run_id"]), strict=True):
        assert mine["error"] <= PRECISION
        both = math.hypot(mine["error"], its["error"])
        assert abs(mine["mean"] - its["mean"]) <= 4 * both


@pytest.mark.slow(seconds=15)
@pytest.mark.long
@pytest.mark.real_data
def test_what_cannot_be_reached_is_said(tmp_path):
    file = shared("data/checkpoints/squeezenet1_0-imagenet-deepcompression.pth")
    ended = survey(
        *("run", "-m", "torchvision:squeezenet1_0", "-c", f"file:{file}", "--runner", "local"),
        *("-d", f"folder:{shared('data/imagenet-sample')}"),
        *("--images-per-score", "128", "--precision", str(PRECISION)),
        home=tmp_path / "home",
    )
    (run,) = rows("SELECT * FROM runs", tmp_path / "home")
    assert (run["status"], run["images"], run["batches"]) == ("done", 512, 4)
    assert run["reached_precision"] > 0
    assert "not precise enough" in ended.stderr
    assert "all 512 images gave" in ended.stderr
    assert "was wanted" in survey("show", run["run_id"], home=tmp_path / "home").stderr
