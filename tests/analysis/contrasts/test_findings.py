"""Findings on contrasts name the direction, the unit and the number of what was tested."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.contrasts.checkpoints import robustness, robustness_finding
from analysis.contrasts.datasets import dataset_deviations, dataset_summary, datasets_finding
from analysis.contrasts.drift_verdicts import COLUMNS, Drift
from analysis.contrasts.residual_networks import residual_contrast, residual_finding
from analysis.contrasts.training_shift import training_finding, training_shift
from analysis.relations.network_depth import depths, depths_finding
from tests.analysis.made import signature, signatures


def trained_by(dataset: str, shifts: list[float]) -> list[pd.DataFrame]:
    """Return each network with random and with trained weights, which differ by a shift."""
    return [
        signature(f"{dataset}{place}{checkpoint}", np.linspace(0.3, 0.6, 5) + shift,
                  architecture=f"a{place}", dataset=dataset, checkpoint=checkpoint)
        for place, moved in enumerate(shifts)
        for checkpoint, shift in (("init:0", 0.0), ("w", moved))
    ]  # fmt: skip


def test_training_has_a_direction_on_each_dataset() -> None:
    """The only effect beyond chance is a fall, though the mean over both datasets rises."""
    made = signatures(*trained_by("d1", [-0.0125] * 8), *trained_by("d2", [0.3] * 3))
    one, other = training_finding(training_shift(made)).split("; it ")
    assert "lowers the mean affinity on d1" in one
    assert "8 of 8 architectures" in one
    assert "no effect beyond chance on the mean affinity on d2" in other
    assert "0 of 3 architectures" in other


def test_equal_names_of_two_sources_are_two_networks_of_training() -> None:
    runs = trained_by("d", [0.1])
    others = [run.assign(source="timm", run_id=run["run_id"] + "t") for run in runs]
    assert "0 of 2 architectures" in training_finding(training_shift(signatures(*runs, *others)))


def on_datasets(name: str, sites: int, **moves: float) -> list[pd.DataFrame]:
    """Return a network on the dataset ``r``, and on others by how far a site moves there."""
    return [
        signature(f"{name}{dataset}", np.linspace(0.3, 0.6, sites) + move, architecture=name,
                  dataset=dataset)
        for dataset, move in {"r": 0.0, **moves}.items()
    ]  # fmt: skip


def test_datasets_are_ranked_by_architectures_that_were_measured_on_all() -> None:
    """Deep networks on B alone move farther in sum, though each site moves less."""
    both = on_datasets("a", 6, A=0.03, B=0.02)
    deep = on_datasets("b", 100, B=0.02)
    made = signatures(*both, *deep)
    sentence = datasets_finding(dataset_deviations(made, "r"), "euclidean")
    assert "least on B" in sentence
    assert "1 architecture" in sentence
    apart = signatures(*on_datasets("a", 6, A=0.03), *deep)
    assert "No architecture was measured on all" in datasets_finding(dataset_deviations(apart, "r"))


def test_datasets_are_ranked_within_a_pooling() -> None:
    """Of sums signatures move farther on every dataset: B is nearer than A by either pooling."""
    mean = on_datasets("a", 6, A=0.03, B=0.02)
    total = [
        run.assign(pooling="sum", run_id=run["run_id"] + "s")
        for run in on_datasets("a", 6, A=0.3, B=0.2)
    ]
    table = dataset_deviations(signatures(*mean, *total), "r")
    first, second = datasets_finding(table, "euclidean").split("; From ")
    assert "From r, signatures move least on B (0.05) and most on A (0.07;" in first
    assert "r, pooled sum, signatures move least on B, pooled sum (0.49)" in second
    summary = dataset_summary(table)
    assert list(summary["dataset"]) == ["B", "A", "B, pooled sum", "A, pooled sum"]
    # One dataset beside the reference is the only one of its pooling.
    alone = dataset_deviations(signatures(*mean[:2], *total[:2]), "r")
    assert datasets_finding(alone, "euclidean") == (
        "A is 0.07 away from r (1 architecture); A, pooled sum is 0.73 away from r, pooled sum"
        " (1 architecture)"
    )


def test_datasets_are_ranked_by_weights_that_were_measured_on_all() -> None:
    apart = [
        run.assign(checkpoint=f"file:/private/{weights}.pth", run_id=run["run_id"] + weights)
        for weights, moves in (("one", {"A": 0.01}), ("two", {"B": 0.2}))
        for run in on_datasets("net", 6, **moves)
    ]
    table = dataset_deviations(signatures(*apart), "r")
    assert "No architecture was measured on all" in datasets_finding(table)
    # Names hold no path, and the run is that on the dataset.
    assert dict(zip(table["run_id"], table["model"], strict=True)) == {
        "netAone": "net@one",
        "netBtwo": "net@two",
    }
    three = [run.assign(checkpoint="three") for run in on_datasets("net", 6, A=0.05, B=0.03)]
    every = dataset_deviations(signatures(*apart, *three), "r")
    assert "least on B (0.07) and most on A (0.12;" in datasets_finding(every, "euclidean")


def test_a_residual_contrast_counts_the_networks_that_are_tested() -> None:
    """Untrained networks differ the other way, and are the more."""
    runs = [
        signature(f"n{place}{checkpoint}", [0.5, 0.5 + after] * 3, architecture=f"n{place}",
                  family="ResNet", repeat=[1, 2] * 3, checkpoint=checkpoint)
        for place in range(7)
        for checkpoint, after in (("init:0", -0.2), ("w", 0.3))
        if checkpoint != "w" or place < 3
    ]  # fmt: skip
    trained = residual_finding(residual_contrast(signatures(*runs)))
    assert "3 of 3 trained networks" in trained
    assert "3 networks" in trained
    both = residual_finding(residual_contrast(signatures(*runs), untrained=True))
    # Of both checkpoints the mean.
    assert "3 of 7 networks" in both
    assert "7 networks)" in both


def test_a_network_on_two_datasets_is_one_network_of_two_comparisons() -> None:
    runs = [
        signature(f"{name}{dataset}", [0.5, 0.6] * 3, architecture=name, family="ResNet",
                  repeat=[1, 2] * 3, dataset=dataset)
        for name in "ab"
        for dataset in "de"
    ]  # fmt: skip
    sentence = residual_finding(residual_contrast(signatures(*runs)))
    assert "4 of 4 comparisons, of trained networks on 2 datasets" in sentence
    one = residual_finding(residual_contrast(signatures(*runs[::2])))
    assert "2 of 2 trained networks" in one


def drift(*verdicts: str, differences: tuple[float | None, ...] = ()) -> str:
    """Return the finding on sites with these verdicts, of one pair of runs."""
    rows = pd.DataFrame({"verdict": verdicts}).reindex(columns=list(COLUMNS))
    rows["difference"] = pd.Series(differences or [None] * len(verdicts), dtype="float64")
    return Drift(rows, 1, 0.01, 0.05).finding()


@pytest.mark.parametrize(
    ("sentence", "parts"),
    [
        (drift("status changed"), ("status of 1 site changed",)),
        (
            drift("status changed", "stayed", differences=(None, 0.0)),
            ("status of 1 site changed", "no move is shown at any of 1 site"),
        ),
        (drift("appeared"), ("No site is compared",)),
    ],
)
def test_a_status_that_changed_is_no_quiet_drift(sentence: str, parts: tuple[str, ...]) -> None:
    for part in parts:
        assert part in sentence
    assert "No site was measured before" not in sentence


def test_one_network_on_two_datasets_is_one_architecture() -> None:
    runs = [
        signature(f"{dataset}{checkpoint}", np.linspace(0.3, 0.6, 6) + level, architecture="a",
                  dataset=dataset, checkpoint=checkpoint)
        for dataset in "de"
        for checkpoint, level in (("x", 0.0), ("y", 0.1))
    ]  # fmt: skip
    sentence = robustness_finding(robustness(signatures(*runs)))
    assert "of 1 architecture" in sentence
    assert "2 comparisons" in sentence


def test_a_family_without_a_trend_to_test_hides_none() -> None:
    """Two runs of one architecture, of other sites each, and a family whose depth matters."""
    alone = [signature(f"x{n}", [0.5] * n, architecture="x", family="A") for n in (3, 4)]
    deep = [signature(f"y{n}", [0.3 + n / 50] * n, family="B") for n in range(3, 10)]
    assert "B: the median affinity rises" in depths_finding(depths(signatures(*alone, *deep)))


def test_findings_on_networks_weigh_a_checkpoint_once() -> None:
    """Of two checkpoints one falls a little and was measured thrice, the other rises."""
    runs = [
        signature(f"{name}{checkpoint}{n}", np.linspace(0.3, 0.6, 6) + move * np.tile([1, 0], 3),
                  architecture=name, family="ResNet", checkpoint=checkpoint, repeat=[2, 1] * 3)
        for name in "ab"
        for checkpoint, move, times in (("init:0", 0.0, 1), ("w", -0.2, 3), ("v", 0.5, 1))
        for n in range(times)
    ]  # fmt: skip
    made = signatures(*runs)
    assert "falls in 0 of 2 architectures" in training_finding(training_shift(made))
    assert "in 2 of 2 trained networks" in residual_finding(residual_contrast(made))


def test_one_architecture_of_two_numbers_of_sites_is_no_family_of_depths() -> None:
    alone = [signature(f"x{n}", [0.5] * n, architecture="x", family="A") for n in (3, 4)]
    assert depths(signatures(*alone)).empty
    deep = [signature(f"y{n}", [0.3 + n / 50] * n, family="B") for n in range(3, 10)]
    finding = depths_finding(depths(signatures(*alone, *deep)))
    assert finding.startswith("1 family has networks of several depths: B:")
    assert "clearest" not in finding
    # Of two sources it is two architectures.
    twice = signatures(alone[0], alone[1].assign(source="timm"))
    assert len(depths(twice)) == 2
