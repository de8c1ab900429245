"""Widths of a network's sites, from the table and from the network."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.isolated_widths import isolated_costs, isolated_widths
from catalog.models import consent
from catalog.models.cost_table import counted
from catalog.site_widths import counted_widths, listed_widths

#: Fire modules squeeze to c channels and expand to twice 4 c; the classifier has an activation too.
SQUEEZENET = {16: 2, 32: 2, 48: 2, 64: 6, 96: 1, 128: 4, 192: 4, 256: 4, 1000: 1}


def test_the_table_holds_what_is_counted() -> None:
    for name in ("torchvision:squeezenet1_0", "small:digits_vgg7"):
        cost = counted(*name.split(":"))
        assert cost is not None
        assert listed_widths(name) == cost.widths == counted_widths(name)
    assert listed_widths("torchvision:squeezenet1_0") == SQUEEZENET


def test_positions_are_columns_where_they_are_kept() -> None:
    by_channel = counted_widths("small:digits_vgg7", "sum")
    flat = counted_widths("small:digits_vgg7", "flatten")
    assert by_channel == {8: 2, 16: 2, 24: 2}
    # 32 x 32 positions, halved by a pooling layer between the stages.
    assert flat == {8 * 32**2: 2, 16 * 16**2: 2, 24 * 8**2: 2}


def test_a_network_that_cannot_be_followed_has_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise SystemExit(3)

    monkeypatch.setattr("catalog.site_widths.followed", broken)
    counted_widths.cache_clear()
    assert counted_widths("small:digits_vgg9") == {}
    counted_widths.cache_clear()


NETS = """
import os
from torch import nn

class Crash(nn.Module):
    def forward(self, x):
        os.abort()

def crashing():
    return Crash()

def sound():
    print("not an answer")
    return nn.Sequential(nn.Conv2d(3, 5, 3), nn.ReLU(), nn.Conv2d(5, 7, 3), nn.GELU())

for each in (crashing, sound):
    each.survey = {"size": 8, "mean": [0.5, 0.5, 0.5], "classes": 10}
"""


def test_a_network_that_crashes_ends_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The process that asks runs no network, and those after the crash are counted."""
    (tmp_path / "width_nets.py").write_text(NETS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(consent, "_admitted", set())
    consent.trust("python:width_nets:sound")
    monkeypatch.delattr("catalog.site_widths.followed")
    crashing, sound = "python:width_nets:crashing", "python:width_nets:sound"
    assert isolated_widths((crashing, sound), "mean") == {crashing: {}, sound: {5: 1, 7: 1}}
    costs = isolated_costs((crashing, sound))
    assert list(costs) == [sound]
    # Two convolutions: 6 x 6 x 5 x 27 and 4 x 4 x 7 x 45 multiply-accumulates.
    assert (costs[sound].size, costs[sound].depth) == (8, 2)
    assert costs[sound].gflops == pytest.approx((4860 + 5040) / 1e9)
