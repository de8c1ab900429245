"""Widths of a network's sites, from the table and from the network."""

from __future__ import annotations

import pytest

from catalog.models.cost_table import counted
from catalog.site_widths import counted_widths, site_widths

#: Fire modules squeeze to c channels and expand to twice 4 c; the classifier has an activation too.
SQUEEZENET = {16: 2, 32: 2, 48: 2, 64: 6, 96: 1, 128: 4, 192: 4, 256: 4, 1000: 1}


def test_the_table_holds_what_is_counted() -> None:
    for name in ("torchvision:squeezenet1_0", "small:digits_vgg7"):
        cost = counted(*name.split(":"))
        assert cost is not None
        assert site_widths(name) == cost.widths == counted_widths(name)
    assert site_widths("torchvision:squeezenet1_0") == SQUEEZENET


def test_positions_are_columns_where_they_are_kept() -> None:
    by_channel = site_widths("small:digits_vgg7", "sum")
    flat = site_widths("small:digits_vgg7", "flatten")
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
