"""A site's row has a score in [0, 1], or a status that says why it has none."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from survey import MeasureSettings, affinity_score
from survey.capture.near_zero import NearZero, count_near_zero
from survey.capture.pooled_pair import PooledPair
from survey.capture.rounding import Noise
from survey.metrics import QUANTITIES
from survey.results import Site, SiteScore
from survey.scoring import score_pair

EPSILON = torch.finfo(torch.float32).eps


def normal(n: int, c: int, seed: int = 0) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, c, generator=generator, dtype=torch.float64)


def pair(x: torch.Tensor | None, y: torch.Tensor | None, reason: str | None = None) -> PooledPair:
    site = Site("layer.relu#2", "relu", 2, 7, "main", 1, "N,C", "")
    counts = [NearZero(0, 0) if m is None else count_near_zero(m) for m in (x, y)]
    return PooledPair(site, x, y, *counts, EPSILON, reason)


def row(x: torch.Tensor, y: torch.Tensor, **settings: object) -> SiteScore:
    chosen = MeasureSettings(images_per_score=len(x), **settings)  # type: ignore[arg-type]
    cut = len(x) // 2
    return score_pair(3, 5, [pair(x[:cut], y[:cut]), pair(x[cut:], y[cut:])], chosen)


def test_a_good_row_carries_the_score_of_all_its_parts() -> None:
    x = normal(60, 7)
    score = row(x, x.relu())
    assert score.affinity == score.raw_affinity == affinity_score(x, x.relu())
    assert (score.batch, score.site, score.site_name, score.call) == (3, 5, "layer.relu#2", 2)
    assert (score.status, score.reason, score.flags) == ("ok", None, ())
    assert (score.channels, score.images, score.activation) == (7, 60, "relu")
    assert score.input_variance == pytest.approx(float(x.var(0, unbiased=False).mean()))
    assert score.output_variance == pytest.approx(float(x.relu().var(0, unbiased=False).mean()))
    assert score.constant_fraction == 0


def test_pairs_in_the_type_of_an_accelerator_give_the_same_row() -> None:
    """There they leave the device in float32, their rounding errors too."""
    x = normal(60, 7).float()
    noise = Noise(*(1e-7 * normal(4, 7, seed).float() for seed in (1, 2)))
    part = dataclasses.replace(pair(x, x.relu()), noise=noise)
    doubled = dataclasses.replace(
        pair(x.double(), x.relu().double()), noise=Noise(noise.x.double(), noise.y.double())
    )
    settings = MeasureSettings(images_per_score=60)
    score = score_pair(0, 0, [part], settings)
    assert score == score_pair(0, 0, [doubled], settings)
    assert None not in score.metrics.values()


@pytest.mark.parametrize(("value", "flags"), [(0.0, {"constant", "dead"}), (0.7, {"constant"})])
def test_a_constant_output_has_no_affinity(value: float, flags: set[str]) -> None:
    score = row(normal(30, 4), torch.full((30, 4), value, dtype=torch.float64))
    assert (score.affinity, score.raw_affinity, score.status) == (None, None, "constant")
    assert set(score.flags) == flags
    assert score.constant_fraction == 1
    assert score.reason


def test_some_dead_channels_are_a_fraction_and_no_failure() -> None:
    x = normal(40, 4)
    y = x.relu()
    y[:, 0] = 0
    score = row(x, y)
    assert (score.status, score.constant_fraction) == ("ok", 0.25)


def test_values_that_are_not_finite_are_counted_by_image(subtests: pytest.Subtests) -> None:
    for side in [0, 1]:
        for value in [math.nan, math.inf, -math.inf]:
            with subtests.test(value=value, side=side):
                matrices = [normal(30, 4), normal(30, 4)]
                matrices[side][[2, 7], 1] = value
                score = row(*matrices)
                assert (score.affinity, score.status, score.flags) == (
                    None,
                    "nonfinite",
                    ("nonfinite",),
                )
                assert "2 of 30 images" in str(score.reason)


@pytest.mark.parametrize(("n", "flagged"), [(10, True), (11, False)])
def test_no_more_images_than_channels_is_flagged(n: int, flagged: bool) -> None:
    x = normal(n, 10)
    assert ("few_images" in row(x, x.relu()).flags) is flagged


def test_a_small_variance_is_flagged_under_the_absolute_ridge_alone() -> None:
    x = 1e-3 * normal(200, 6)
    absolute, relative = row(x, x.relu(), ridge="absolute"), row(x, x.relu())
    assert (absolute.flags, relative.flags) == (("ridge",), ())
    assert absolute.affinity is not None
    assert relative.affinity is not None
    scaled = row(1e3 * x, 1e3 * x.relu())
    assert relative.affinity == pytest.approx(scaled.affinity, abs=1e-10)
    assert abs(absolute.affinity - relative.affinity) > 0.05
    assert row(1e3 * x, 1e3 * x.relu(), ridge="absolute").flags == ()


def test_a_value_outside_the_range_is_kept_as_raw_and_not_as_a_score() -> None:
    x, y = torch.zeros(8, 20, dtype=torch.float64), torch.zeros(8, 20, dtype=torch.float64)
    x[0, 0], y[:4, 0], y[4:, 0] = 1, 1, -1
    score = row(x, y)
    assert (score.affinity, score.status) == (None, "out_of_range")
    assert score.raw_affinity is not None
    assert score.raw_affinity < 0
    assert "few_images" in score.flags
    assert "n=8, c=20" in str(score.reason)


def test_widths_that_differ_are_a_failed_row() -> None:
    score = row(normal(30, 4), normal(30, 2))
    assert (score.affinity, score.status, score.channels) == (None, "failed", 4)
    assert "4 channels and the output 2" in str(score.reason)


def test_what_cannot_be_evaluated_is_a_failed_row() -> None:
    huge = 1e180 * normal(30, 4)
    score = row(huge, huge.relu(), ridge="absolute")
    assert (score.affinity, score.status) == (None, "failed")
    assert "cannot be evaluated" in str(score.reason)


def test_one_part_without_a_pair_fails_the_row() -> None:
    x = normal(10, 3)
    parts = [pair(x, x.relu()), pair(None, None, "which axis cannot be told")]
    score = score_pair(0, 0, parts, MeasureSettings(images_per_score=20))
    assert (score.status, score.reason) == ("failed", "which axis cannot be told")
    assert score.affinity is None


METRICS = tuple(quantity.name for quantity in QUANTITIES)


def test_a_row_has_a_column_for_every_quantity_and_a_value_or_a_note() -> None:
    x = normal(60, 7)
    score = row(x, x.relu())
    assert all(isinstance(getattr(score, name), float) for name in METRICS)
    assert score.notes == ()
    assert score.graph_depth == 7


def test_a_metric_without_a_value_has_a_note() -> None:
    x = normal(10, 12)
    score = row(x, x.relu())
    assert (score.status, score.affinity_plain) == ("ok", None)
    assert score.notes == ("affinity_plain: needs 13 images for 12 channels, has 10",)


def test_two_images_give_what_two_images_can() -> None:
    score = row(normal(2, 3), normal(2, 3, 1))
    missing = {name for name in METRICS if getattr(score, name) is None}
    assert missing == {"affinity_plain", "cka_debiased", "r2_heldout"}
    assert [note.split(":")[0] for note in score.notes] == [n for n in METRICS if n in missing]


@pytest.mark.parametrize("value", [0.0, 0.7])
@pytest.mark.parametrize("side", [0, 1])
def test_a_constant_side_leaves_no_metric_and_a_note_for_each(side: int, value: float) -> None:
    matrices = [normal(30, 4), normal(30, 4, 1)]
    matrices[side][:] = value
    score = row(*matrices)
    assert score.status == "constant"
    assert all(getattr(score, name) is None for name in METRICS)
    assert [note.split(":")[0] for note in score.notes] == [n for n in METRICS if n != "affinity"]
    assert ["input", "output"][side] in str(score.reason)


def noisy(share: float, side: str) -> SiteScore:
    """Return the row of a pair whose noise is a share of its deviation, on one side."""
    x = normal(60, 5)
    y = torch.tanh(x)
    errors = {"x": 0 * x[:4], "y": 0 * y[:4]}
    matrix = x if side == "x" else y
    deviation = matrix.var(0, unbiased=False).mean().sqrt()
    errors[side] = share * deviation * torch.ones_like(x[:4])
    part = dataclasses.replace(pair(x, y), noise=Noise(**errors))
    return score_pair(0, 0, [part], MeasureSettings(images_per_score=60))


@pytest.mark.parametrize("side", ["x", "y"])
def test_noise_beside_the_deviation_is_flagged_and_noise_alone_is_constant(side: str) -> None:
    plain = noisy(0.0, side)
    assert (plain.status, plain.flags) == ("ok", ())
    assert noisy(1.3e-4, side) == plain
    flagged = noisy(1.5e-4, side)
    assert flagged.flags == ("rounding",)
    assert flagged.affinity == plain.affinity
    for share in (0.5, 2.0):
        alone = noisy(share, side)
        assert (alone.status, alone.affinity, alone.flags) == ("constant", None, ("constant",))
        assert alone.cka is alone.entropy_change is alone.norm is None


def test_noise_in_a_weak_direction_leaves_no_r2() -> None:
    x = normal(60, 5)
    x[:, 4] = x[:, 3] + 1e-5 * x[:, 4]
    errors = torch.zeros(4, 5, dtype=torch.float64)
    for size, known in [(1e-9, True), (1e-6, False)]:
        errors[:, 4] = size
        part = dataclasses.replace(pair(x, x.relu()), noise=Noise(errors, 0 * errors))
        score = score_pair(0, 0, [part], MeasureSettings(images_per_score=60))
        assert (score.status, score.flags) == ("ok", ())
        assert (score.r2 is not None) is known
        assert [note.split(":")[0] for note in score.notes] == ([] if known else ["r2"])


def test_a_pair_that_cannot_be_used_has_no_metric_and_no_notes() -> None:
    x = normal(30, 4)
    broken = x.clone()
    broken[0, 0] = math.nan
    for result in (row(x, broken), row(broken, x), row(x, x[:, :2])):
        assert all(getattr(result, name) is None for name in METRICS)
        assert result.notes == ()
        assert result.reason


def test_a_failed_affinity_loses_no_other_metric() -> None:
    huge = 1e180 * normal(30, 4)
    score = row(huge, huge.relu(), ridge="absolute")
    assert (score.status, score.affinity, score.sparsity_before) == ("failed", None, 0.0)
    assert score.entropy_after is not None
    assert "affinity_plain: " in " ".join(score.notes)


def test_sparsity_is_that_of_the_unpooled_tensors_of_all_parts() -> None:
    x = normal(20, 3)
    parts = [pair(x[:5], x[:5].relu()), pair(x[5:], x[5:].relu())]
    parts = [
        dataclasses.replace(part, before=NearZero(k, 100), after=NearZero(50 + k, 100))
        for k, part in enumerate(parts)
    ]
    score = score_pair(0, 0, parts, MeasureSettings(images_per_score=20))
    assert (score.sparsity_before, score.sparsity_after) == (1 / 200, 101 / 200)
    assert score.sparsity_change == pytest.approx(0.5)


def test_unshrunk_settings_give_one_value_to_both_affinities() -> None:
    x = normal(50, 4)
    score = row(x, x.relu(), shrinkage="none")
    assert score.affinity == score.affinity_plain == affinity_score(x, x.relu(), "none")
    assert row(x, x.relu()).affinity_plain == score.affinity
