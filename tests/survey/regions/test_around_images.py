"""Lines around images: a row an image, a column a line, and lines that have no length."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence

import pytest
import torch

from survey import InputError
from survey.regions.around_images import along_paths, mean_of
from survey.regions.closed_paths import closed_paths
from survey.regions.line import Line
from survey.regions.watched_network import WatchedNetwork
from tests.survey.regions.networks import ConvNet

IMAGES = torch.randn(3, 3, 6, 6, generator=torch.Generator().manual_seed(0))


def of_line(line: Line) -> Sequence[float]:
    ends = line.outputs(line.times([0.0, 1.0]))
    return [line.distance, ends[0, 0].item(), ends[1, 0].item()]


def ended(steps: Generator[float, None, torch.Tensor]) -> tuple[list[float], torch.Tensor]:
    fractions = []
    while True:
        try:
            fractions.append(next(steps))
        except StopIteration as end:
            return fractions, end.value


def test_a_row_an_image_and_a_column_a_line() -> None:
    images = IMAGES.clone()
    images[1] = 0.5
    network = WatchedNetwork(ConvNet(), exact=True)
    fractions, values = ended(along_paths(network, images, of_line))
    paths = closed_paths(images.double())
    assert values.shape == (3, 8, 3)
    # An image of one colour does not move.
    assert values[1].isnan().all()
    assert fractions == pytest.approx(
        [*(k / 24 for k in range(1, 9)), *(k / 24 for k in range(17, 25))]
    )
    for row in (0, 2):
        starts, ends = network.run(paths[row])[:, 0], network.run(paths[row].roll(-1, 0))[:, 0]
        lengths = (paths[row].roll(-1, 0) - paths[row]).flatten(1).norm(dim=1)
        assert torch.allclose(values[row], torch.stack([lengths, starts, ends], 1))


def test_a_pass_has_no_more_inputs_than_a_micro_batch() -> None:
    network = WatchedNetwork(ConvNet(), exact=True)
    sizes: list[float] = []
    steps = along_paths(
        network, IMAGES, lambda line: sizes.append(line.batch) or [0.0], micro_batch=5
    )
    ended(steps)
    assert set(sizes) == {5}


def test_images_of_one_colour_alone_have_no_lines() -> None:
    with pytest.raises(InputError, match="one colour"):
        ended(along_paths(WatchedNetwork(ConvNet(), exact=True), 0 * IMAGES, of_line))


def test_the_standard_error_is_that_of_the_paths() -> None:
    values = torch.tensor([[1.0, 3.0], [5.0, math.nan], [math.nan, math.nan], [9.0, 7.0]])
    mean = mean_of(values)
    assert (mean.value, mean.paths) == (5.0, 3)
    assert mean.standard_error == pytest.approx(3 / math.sqrt(3))
    assert mean_of(values[:1]).standard_error is None
