"""Too few images for a site's channels: one rule for the flag, the plan and ``auto``."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from survey import InputError, MeasureSettings, SettingsError, measure
from survey.few_images import automatic_images, enough_images, flagged_sites
from survey.settings import USUAL_IMAGES


def network(channels: int) -> nn.Module:
    """Return two activations, of so many channels and of two."""
    torch.manual_seed(0)
    first, second = nn.Conv2d(3, channels, 1), nn.Conv2d(channels, 2, 1)
    return nn.Sequential(first, nn.ReLU(), second, nn.Tanh())


@pytest.mark.parametrize("images", [8, 9, 10])
def test_the_rule_and_the_flag_agree(images: int) -> None:
    data = [torch.randn(images, 3, 2, 2)]
    rows = list(measure(network(9), data, MeasureSettings(images_per_score=images)))
    flagged = ["few_images" in row.flags for row in rows]
    assert flagged == [images < enough_images(9), False]
    assert sum(flagged) == flagged_sites({9: 1, 2: 1}, images)


@pytest.mark.parametrize(
    ("widths", "available", "number"),
    [
        ({}, None, USUAL_IMAGES),
        ({64: 3, 16: 2}, 5000, USUAL_IMAGES),
        ({64: 3, 1000: 1}, 5000, 1001),
        ({64: 3, 1000: 1}, 700, 700),
        ({64: 3}, 100, 100),
    ],
)
def test_auto_is_as_many_as_the_widest_site_needs(widths, available, number) -> None:
    assert automatic_images(widths, available) == number


@pytest.mark.parametrize(("there", "images", "scores"), [(50, 21, 2), (9, 9, 1)])
def test_measure_chooses_from_the_network_it_is_given(
    there: int, images: int, scores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small, as the time of a score grows with the cube of its images.
    monkeypatch.setattr("survey.few_images.USUAL_IMAGES", 4)
    data, labels = torch.randn(there, 3, 1, 1), torch.zeros(there, dtype=torch.long)
    automatic = MeasureSettings(images_per_score="auto")
    # In batches of any size, with labels or without.
    rows = list(measure(network(20), data.split(7), automatic))
    labelled = zip(data.split(5), labels.split(5), strict=True)
    again = list(measure(network(20), labelled, automatic))
    plain = list(measure(network(20), [data], MeasureSettings(images_per_score=images)))
    assert rows == again == plain
    assert len(rows) == 2 * scores
    assert {row.images for row in rows} == {images}


def test_a_number_is_not_read_before_it_is_chosen() -> None:
    with pytest.raises(SettingsError, match="auto"):
        _ = MeasureSettings(images_per_score="auto").score_images
    for wrong in ("Auto", "512", 1, True, 2.5):
        with pytest.raises(SettingsError, match="images_per_score"):
            MeasureSettings(images_per_score=wrong)
    for nothing in ([], [torch.randn(1, 3, 1, 1)]):
        with pytest.raises(InputError):
            list(measure(network(4), nothing, MeasureSettings(images_per_score="auto")))
