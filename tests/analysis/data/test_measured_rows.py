"""Frames of what ``measure`` yields."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from analysis import score_frame, signature_chart, signature_frame
from survey import MeasureSettings, measure
from survey.errors import InputError
from survey.results import SiteScore


@pytest.fixture(scope="module")
def rows() -> list[SiteScore]:
    """Return the rows of two sites on three batches, the second with too few images."""
    made = torch.Generator().manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 4, 3), nn.ReLU(), nn.Conv2d(4, 20, 3), nn.Tanh())
    images = torch.randn(48, 3, 8, 8, generator=made)
    return list(measure(model, [images], MeasureSettings(images_per_score=16)))


def test_a_row_keeps_every_value(rows: list[SiteScore]) -> None:
    frame = score_frame(rows)
    assert len(frame) == len(rows) == 6
    for row, kept in zip(rows, frame.to_dict("records"), strict=True):
        for name, value in kept.items():
            expected = getattr(row, str(name))
            assert expected == value or (expected is None and value != value)  # noqa: PLR0124 - NaN


def test_a_signature_is_the_mean_over_batches(rows: list[SiteScore]) -> None:
    frame = signature_frame(iter(rows), "mine")
    assert frame["site"].tolist() == [0, 1]
    assert frame["relative_depth"].tolist() == [0, 1]
    assert frame["flags"].tolist() == [(), ("few_images",)]
    for name in ("affinity", "cka", "r2", "norm"):
        for site in (0, 1):
            values = torch.tensor([getattr(row, name) for row in rows if row.site == site])
            assert frame[name][site] == pytest.approx(values.double().mean().item(), abs=1e-6)
    assert frame["affinity_se"].tolist() == pytest.approx((frame["affinity_std"] / 3**0.5).tolist())


def test_a_signature_can_be_drawn(rows: list[SiteScore]) -> None:
    drawn = str(signature_chart(signature_frame(rows, "mine")).to_dict())
    assert "mine" in drawn


def test_no_rows_are_refused() -> None:
    with pytest.raises(InputError):
        score_frame(iter(()))
