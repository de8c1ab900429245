"""Figures of many networks: so many panels, strips and ticks as a reader can take in."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.contrasts.checkpoints import robustness
from analysis.contrasts.datasets import dataset_deviations
from analysis.figures import (
    dataset_chart,
    distribution_chart,
    residual_chart,
    robustness_chart,
    training_chart,
)
from analysis.figures import datasets as of_datasets
from analysis.figures import residual_networks as of_residual_networks
from analysis.figures import robustness as of_checkpoints
from analysis.figures import training_shift as of_training
from analysis.figures.distributions import TICKS
from tests.analysis.figures.drawn import marks, note, words
from tests.analysis.figures.frames import surveyed

pytestmark = pytest.mark.slow(seconds=9)


def networks(count: int, sites: int = 4) -> pd.DataFrame:
    """Return residual networks whose names and ids count, of few sites each."""
    one = surveyed(9).query("family == 'ResNet'").head(sites)
    names = [f"resnet_{number:03}" for number in range(count)]
    return pd.concat(
        [one.assign(run_id=name, architecture=name, model=name) for name in names],
        ignore_index=True,
    )


def test_of_many_architectures_those_that_vary_most_have_panels():
    count = of_checkpoints.MOST + 2
    frame = networks(count)
    scale = frame["run_id"].str[-3:].astype("float64") / (10 * count)
    moved = frame.assign(
        run_id=frame["run_id"] + "b", checkpoint="other", affinity=frame["affinity"] * (1 - scale)
    )
    metrics = {"cka": 0.5, "norm": 1.0, "sparsity_change": 0.1, "entropy_change": 0.1, "r2": 0.5}
    drawn = robustness_chart(robustness(pd.concat([frame, moved]).assign(**metrics)))
    shown = words(drawn)
    assert shown.index(f"resnet_{count - 2:03} on") < shown.index(f"resnet_{count - 1:03} on")
    assert "resnet_002 on" in shown
    assert "resnet_001 on" not in shown
    assert f"{count - 2} of {count} shown, whose affinity varies most" in note(drawn)


def test_of_many_models_those_that_move_most_have_rows():
    count = of_datasets.MOST + 1
    frame = networks(count)
    scale = frame["run_id"].str[-3:].astype("float64") / (10 * count)
    moved = frame.assign(
        run_id=frame["run_id"] + "n", dataset="noise", affinity=frame["affinity"] * (1 - scale)
    )
    drawn = dataset_chart(dataset_deviations(pd.concat([frame, moved]), "photos"))
    assert len(marks(drawn, "symbol")) == of_datasets.MOST
    assert "resnet_001" in words(drawn)
    assert "resnet_000" not in words(drawn)
    assert f"{count - 1} of {count} shown, which move most" in note(drawn)


def test_of_many_trained_architectures_the_first_have_panels():
    count = of_training.MOST + 1
    after = networks(count)
    before = after.assign(run_id=after["run_id"] + "i", checkpoint="init:0", affinity=0.9)
    drawn = training_chart(pd.concat([after, before], ignore_index=True))
    assert len(marks(drawn, "line")) == 2 * of_training.MOST
    assert f"{of_training.MOST} of {count} shown" in note(drawn)
    # What only the last has is neither drawn nor told of.
    odd = after["run_id"] == f"resnet_{count - 1:03}"
    flags = [("few_images",) if each else () for each in odd]
    branched = after.assign(flags=flags, graph_depth=after["graph_depth"].mask(odd, 1))
    last = pd.concat([branched, before], ignore_index=True)
    last["flags"] = [each if isinstance(each, tuple) else () for each in last["flags"]]
    assert "Hollow" not in note(training_chart(last))


def test_of_many_residual_networks_the_first_have_strips():
    count = of_residual_networks.MOST + 1
    drawn = residual_chart(networks(count))
    assert len(marks(drawn, "symbol")) == 4 * of_residual_networks.MOST
    assert f"resnet_{count - 1:03} (n" not in words(drawn)
    assert f"{count - 1} of {count} shown, the first" in note(drawn)
    assert f"in {count} of {count} trained networks" in words(drawn)


@pytest.mark.parametrize("more", [0, 1, 7, TICKS])
def test_of_many_sites_those_at_even_ranks_have_ticks(more):
    count = TICKS + more
    affinity = np.random.default_rng(0).permutation(np.linspace(0.1, 0.9, count))
    frame = pd.concat([surveyed(1).head(1)] * count, ignore_index=True).assign(
        site=range(count), affinity=affinity
    )
    drawn = distribution_chart(frame)
    places = sorted(_across(mark) for mark in marks(drawn, "rect"))
    every = sorted(np.interp(affinity, (0.1, 0.9), (places[0], places[-1])))
    assert len(places) == pytest.approx(TICKS, abs=1)
    assert np.diff(places).max() < 2.5 * (every[1] - every[0]) * count / TICKS
    assert ("evenly spaced ranks" in note(drawn)) == (more > 0)


def test_a_network_and_its_twin_are_drawn_or_left_out_together():
    count = of_residual_networks.MOST - 1
    frame = networks(count)
    last = frame[frame["run_id"] == f"resnet_{count - 1:03}"]
    named = dict.fromkeys(("run_id", "architecture", "model"), f"plain_{count - 1:03}")
    plain = last.assign(**named, family="plain", repeat=1)
    both = residual_chart(pd.concat([frame, plain], ignore_index=True))
    assert f"plain_{count - 1:03} (n" in words(both)
    more = networks(count + 1)
    one = residual_chart(pd.concat([more, plain], ignore_index=True))
    assert f"plain_{count - 1:03} (n" in words(one)
    assert f"resnet_{count:03} (n" not in words(one)


def test_without_a_score_of_affinity_panels_are_the_first():
    count = of_checkpoints.MOST + 1
    frame = networks(count).assign(cka=0.5)
    moved = frame.assign(run_id=frame["run_id"] + "b", checkpoint="other", cka=0.6)
    table = robustness(pd.concat([frame, moved]), metrics=("cka",))
    assert f"{count - 1} of {count} shown, the first" in note(robustness_chart(table))


def _across(mark) -> float:
    """Return how far to the right a tick lies."""
    return float(mark.get("d").removeprefix("M").replace(",", " ").split()[0])
