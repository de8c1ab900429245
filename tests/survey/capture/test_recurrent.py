"""Recurrent layers are maps whose insides are listed, and sites around them are measured."""

from __future__ import annotations

import pytest
import torch
from timm.models.sequencer import LSTM2d
from torch import nn

from survey.capture.forward import Capture


def _net() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 6), nn.ReLU(), LSTM2d(6, 5), nn.GELU()).eval()


@pytest.mark.parametrize("count", [1, 3])
def test_sites_beside_a_recurrence_over_rows_and_columns_are_those_of_hooks(count: int) -> None:
    net, images = _net(), torch.randn(count, 4, 3, 6)
    held: list[torch.Tensor] = []
    order = torch.randperm(count)
    with torch.inference_mode():
        output, pairs = Capture(net).forward(images)
        _, permuted = Capture(net).forward(images[order])
        for place in (1, 3):
            net[place].register_forward_hook(lambda _, given, made: held.extend((given[0], made)))
        # One image after the other: nothing can have been mixed.
        each = [net(image) for image in images.split(1)]
        plain = net(images)
    assert torch.equal(output, plain)
    assert torch.allclose(output, torch.cat(each), atol=1e-6)
    expected = [each.double().mean((1, 2)) for each in held[-4:]]
    given = [matrix for pair in pairs for matrix in (pair.x, pair.y)]
    moved = [matrix for pair in permuted for matrix in (pair.x, pair.y)]
    for matrix, other, columns in zip(given, moved, expected, strict=True):
        assert matrix is not None
        assert other is not None
        torch.testing.assert_close(matrix, columns, rtol=0, atol=1e-6)
        torch.testing.assert_close(other, columns[order], rtol=0, atol=1e-6)


def test_activations_inside_a_recurrent_layer_are_listed_with_a_reason() -> None:
    calls = Capture(_net()).calls(torch.randn(2, 4, 3, 6))
    inside = [(call.path, call.function) for call in calls if call.site is None]
    assert inside == [(f"2.rnn_{way}", gate) for way in "vh" for gate in ("sigmoid", "tanh")]
    assert all("kernel" in str(call.reason) for call in calls if call.site is None)
    assert [call.site for call in calls if call.site] == ["1#1", "3#1"]
