"""Metrics that are chosen have the values of a run with all; the others cost nothing."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
import torch
from torch import nn

import survey.metrics
import survey.scoring
from survey import MeasureSettings, SettingsError, UnknownName, measure
from survey.metrics import QUANTITIES, chosen_quantities, reads_counts, with_known_metrics
from survey.metrics.base import Quantity
from survey.results import SiteScore

NAMES = [quantity.name for quantity in QUANTITIES]


def rows(*metrics: str) -> list[SiteScore]:
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 9), nn.Tanh(), nn.Linear(9, 4))
    images = torch.randn(96, 12, generator=torch.Generator().manual_seed(1))
    return list(measure(net, [images], MeasureSettings(48, 32, metrics=metrics or None)))


@pytest.fixture
def refusing(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let every metric but the affinity and CKA end the run where it is computed."""

    def refuse(_: object) -> float:
        raise AssertionError("it was not asked for")

    def kept(quantity: Quantity) -> Quantity:
        chosen = quantity.name in ("affinity", "cka")
        return quantity if chosen else dataclasses.replace(quantity, compute=refuse)

    monkeypatch.setattr(survey.metrics, "QUANTITIES", tuple(map(kept, QUANTITIES)))
    for cached in (chosen_quantities, survey.scoring._others):
        cached.cache_clear()
    yield
    for cached in (chosen_quantities, survey.scoring._others):
        cached.cache_clear()


def test_chosen_ones_equal_those_of_all_bit_for_bit() -> None:
    for every, some in zip(rows(), rows("cka", "r2", "affinity"), strict=True):
        left_out = {name: None for name in NAMES if name not in ("affinity", "cka", "r2")}
        kept = {key: every.metrics[key] for key in every.metrics if key in ("cka", "r2")}
        assert None not in (every.affinity, *kept.values())
        assert some.metrics == {**every.metrics, **left_out, **kept}
        assert list(some.metrics) == list(every.metrics)
        assert some.notes == tuple(f"{name}: not asked for" for name in left_out)
        same = {"metrics": every.metrics, "notes": every.notes}
        assert dataclasses.replace(some, **same) == every  # type: ignore[arg-type]


def test_what_is_not_chosen_is_not_computed(refusing: None) -> None:
    assert all(row.cka is not None and row.r2 is None for row in rows("affinity", "cka"))
    with pytest.raises(AssertionError, match="not asked for"):
        rows()


def test_counts_are_made_for_sparsity_and_for_metrics_of_packages_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert reads_counts(None)
    assert reads_counts(("affinity", "sparsity_after"))
    assert not reads_counts(("affinity", "cka", "entropy_change", "r2"))
    package = (*QUANTITIES, dataclasses.replace(QUANTITIES[0], name="package_metric"))
    monkeypatch.setattr(survey.metrics, "all_quantities", lambda: package)
    chosen_quantities.cache_clear()
    assert reads_counts(("affinity", "package_metric"))
    chosen_quantities.cache_clear()


def test_names_are_checked_and_put_in_order() -> None:
    with pytest.raises(UnknownName, match="'ckb'"):
        rows("affinity", "ckb")
    for refused in ("cka", "", (), ["affinity", 3], 3, {"affinity"}):
        with pytest.raises(SettingsError, match="metrics is"):
            MeasureSettings(metrics=refused)  # type: ignore[arg-type]
    both = MeasureSettings(metrics=("affinity", "cka"))
    assert MeasureSettings(metrics=["cka", "affinity", "cka"]) == both  # type: ignore[arg-type]
    assert MeasureSettings(metrics="cka, affinity") == both  # type: ignore[arg-type]
    assert MeasureSettings.from_dict(both.to_dict()) == both
    everything = MeasureSettings(metrics=tuple(NAMES))
    assert with_known_metrics(everything) == MeasureSettings()
    assert with_known_metrics(both) == both
