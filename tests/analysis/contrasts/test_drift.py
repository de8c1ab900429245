"""Drift: what moves is found, what stays is not, and the tests hold their level."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t as student

from analysis.contrasts.drift_between_runs import drift
from analysis.contrasts.drift_verdicts import Drift
from analysis.data.selection import Selection
from analysis.figures import drift_chart, drift_rows
from analysis.statistics.p_values import (
    corrected,
    detectable_difference,
    difference_p,
    unpaired_freedom,
)
from catalog.open_home import open_home
from catalog.store.records import BatchRecord
from catalog.store.writer import Writer
from survey.errors import SettingsError
from survey.results import BatchScores, SiteScore
from tests.analysis.figures import drawn
from tests.catalog.homes import new_home
from tests.catalog.records import run, score

pytestmark = pytest.mark.slow(seconds=9)

#: Batch scores of a run: by site name, one a batch; a string is a status without a score.
Scores = Mapping[str, Sequence[float | str]]
Measured = Callable[..., None]

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
STEADY = (0.50, 0.52, 0.51, 0.49, 0.50, 0.51, 0.48, 0.50)
BASIC = {"dataset_fingerprint": "d", "images_per_score": 64, "pooling": "mean", "skipped_images": 0}


def up(scores: Sequence[float], by: float) -> list[float]:
    return [value + by for value in scores]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    new_home(tmp_path)
    return tmp_path


@pytest.fixture
def measured(home: Path) -> Measured:
    """Store a run with these scores, an hour after the one before."""
    times = iter(NOON + timedelta(hours=hour) for hour in range(100))

    def store(name: str, scores: Scores, status: str = "done", **values: Any) -> None:
        record = run(name, status, finished_at=next(times), **{**BASIC, **values})
        with Writer.open(open_home(home, create=False)) as writer:
            for number in range(max(map(len, scores.values()), default=0)):
                batch = BatchScores(number, 64, _rows(number, scores), 64, 1, 1, 1.0)
                writer.write(batches=[BatchRecord(name, 1, batch, 64 * (number + 1))])
            writer.write([record])

    return store


def _rows(number: int, scores: Scores) -> tuple[SiteScore, ...]:
    return tuple(
        _row(score(number, site, site_name=name), values[number])
        for site, (name, values) in enumerate(scores.items())
        if number < len(values)
    )


def _row(row: SiteScore, value: float | str) -> SiteScore:
    if isinstance(value, str):
        return dataclasses.replace(row, affinity=None, status=value)  # type: ignore[arg-type]
    return dataclasses.replace(row, affinity=value)


def verdicts(result: Drift) -> dict[str, str]:
    return dict(zip(result.rows["site_name"].fillna("-"), result.rows["verdict"], strict=True))


def test_the_same_images_are_compared_batch_by_batch(home: Path, measured: Measured) -> None:
    noise = (0.1e-4, -0.2e-4, 0.3e-4, 0, -0.1e-4, 0.2e-4, 0, 0)
    moved = [value + 0.003 + extra for value, extra in zip(STEADY, noise, strict=True)]
    measured("old", {"a": STEADY, "b": STEADY})
    measured("new", {"a": moved, "b": STEADY})
    result = drift(home)
    assert result.moved
    assert verdicts(result) == {"a": "moved", "b": "unchanged"}
    # On other images the same difference is nothing: batches vary three times as much.
    measured("newer", {"a": STEADY, "b": STEADY}, dataset_fingerprint="other")
    again = drift(home)
    assert not again.moved
    assert set(again.rows["test"]) == {"unpaired"}


def test_paired_means_are_over_the_batches_of_both(home: Path, measured: Measured) -> None:
    measured("old", {"a": STEADY[:4]})
    measured("new", {"a": [*up(STEADY[:4], 0.1), 0.0, 0.0]})
    (row,) = drift(home).rows.to_dict("records")
    assert row["difference"] == pytest.approx(0.1)
    assert row["affinity_after"] - row["affinity_before"] == pytest.approx(row["difference"])


def test_what_is_smaller_than_the_tolerance_never_moves(home: Path, measured: Measured) -> None:
    measured("old", {"a": STEADY})
    measured("new", {"a": up(STEADY, 0.003)})
    assert drift(home).moved
    assert not drift(home, tolerance=0.0031).moved


def test_other_images_show_what_is_far_beyond_the_batches(home: Path, measured: Measured) -> None:
    measured("old", {"a": STEADY})
    measured("new", {"a": up(STEADY, 0.1)}, dataset_fingerprint="other")
    assert verdicts(drift(home)) == {"a": "moved"}


def test_sites_that_come_go_and_lose_their_score(home: Path, measured: Measured) -> None:
    measured("old", {"a": STEADY, "b": STEADY, "gone": STEADY, "one": [0.5], "dead": ["constant"]})
    lost = ["nonfinite", *STEADY[1:]]
    measured("new", {"a": STEADY, "b": lost, "new": STEADY, "one": [0.9], "dead": ["constant"]})
    result = drift(home)
    assert verdicts(result) == {
        "a": "unchanged",
        "b": "status changed",
        "new": "site appeared",
        "gone": "site vanished",
        "one": "too few batches",
        "dead": "unchanged",
    }
    assert result.moved
    (detail,) = result.rows[result.rows["verdict"] == "status changed"]["detail"]
    assert "ok -> nonfinite and ok at 1 batches" in detail


def test_a_status_that_depends_on_the_images_is_no_change(home: Path, measured: Measured) -> None:
    measured("old", {"a": ["constant", *STEADY]})
    measured("new", {"a": STEADY}, dataset_fingerprint="other")
    assert not drift(home).moved
    measured("newer", {"a": ["constant"] * 8}, dataset_fingerprint="third")
    assert verdicts(drift(home)) == {"a": "status changed"}


def test_runs_of_each_setting_have_predecessors_of_their_own(
    home: Path, measured: Measured
) -> None:
    measured("mean1", {"a": STEADY})
    measured("mean2", {"a": up(STEADY, 0.1)})
    measured("mean3", {"a": up(STEADY, 0.2)})
    measured("pre", {"a": STEADY}, pooling="pre")
    measured("absolute", {}, "failed", ridge="absolute")
    # The newest run of the name has no predecessor, which hides no move of the others.
    rows = drift(home).rows[["verdict", "before", "after"]].to_numpy(object).tolist()
    assert [row[::2] for row in rows] == [["moved", "mean3"], ["run appeared", "pre"]]
    assert rows[0][1] == "mean2"
    (detail,) = (row["detail"] for row in drift(home).rows.to_dict("records")[1:])
    assert detail.endswith("settings differ: pooling mean -> pre")


def test_since_takes_every_run_after_it(home: Path, measured: Measured) -> None:
    for name in ("r1", "r2", "r3"):
        measured(name, {"a": STEADY})
    since = drift(home, since=NOON + timedelta(minutes=30)).rows
    assert list(zip(since["before"], since["after"], strict=True)) == [("r1", "r2"), ("r2", "r3")]
    assert len(drift(home, since=NOON + timedelta(days=1)).rows) == 0


def test_runs_that_come_and_fail(home: Path, measured: Measured) -> None:
    measured("old", {"a": STEADY})
    assert list(drift(home).rows["verdict"]) == ["run appeared"]
    measured("new", {}, "failed", stage="model", error="no such layer")
    (row, *_) = drift(home, since=NOON + timedelta(minutes=1)).rows.to_dict("records")
    assert row["verdict"] == "run vanished"
    assert "no such layer" in row["detail"]


def test_orders_are_names_of_their_own_unless_asked(home: Path, measured: Measured) -> None:
    measured("old", {"a": STEADY}, dataset="digits[:9]")
    measured("new", {"a": STEADY}, dataset="digits[:9 order 3]", dataset_fingerprint="other")
    assert set(drift(home).rows["verdict"]) == {"run appeared"}
    compared = drift(home, any_order=True)
    assert set(compared.rows["verdict"]) == {"stayed"}
    # Nothing moved for all that is shown, though the runs are not alike.
    assert any("other images or order (1)" in each for each in compared.sentences())


def test_what_cannot_be_is_refused(home: Path, measured: Measured) -> None:
    measured("old", {"a": STEADY})
    measured("pre", {"a": STEADY}, pooling="pre")
    measured("broken", {}, "failed")
    for options, words in (
        ({"tolerance": -0.1}, "tolerance is -0.1"),
        ({"level": 0.0}, "level is 0"),
        ({"pair": ("old", "pre")}, "pooling mean -> pre"),
        ({"pair": ("old", "old")}, "with itself"),
        ({"pair": ("old", "broken")}, "is failed"),
        ({"selection": Selection(models="nothing*")}, "no run fits the model 'nothing"),
    ):
        with pytest.raises(SettingsError, match=words):
            drift(home, **options)  # type: ignore[arg-type]


def test_holm_is_stepwise_bonferroni() -> None:
    assert corrected([0.01, 0.04, 0.03, 0.005])[0].tolist() == pytest.approx(
        [0.03, 0.06, 0.06, 0.02]
    )
    assert corrected([])[0].tolist() == []
    assert corrected([0.9, 0.8])[0].tolist() == [1.0, 1.0]


@pytest.mark.parametrize(
    ("before", "after", "ratio"), [(2, 2, 1), (3, 3, 1), (7, 7, 2), (2, 7, 2), (3, 30, 1)]
)
def test_an_unpaired_test_holds_its_level(before: int, after: int, ratio: float) -> None:
    """Far in the tail too: there Welch's degrees of freedom fail with 3 and 30 batches."""
    draws = 400_000
    rng = np.random.default_rng(before + after)
    difference = rng.normal(0, np.hypot(ratio / before**0.5, 1 / after**0.5), draws)
    spread = (_variances(rng, before, draws) * ratio**2, _variances(rng, after, draws))
    error, freedom = unpaired_freedom(spread[0], before, spread[1], after)
    p = difference_p(difference, error, freedom)
    for level in (1e-2, 1e-3, 1e-4):
        allowed = level + 4 * (level / draws) ** 0.5
        assert (p <= level).mean() <= 1.15 * allowed, level


def test_the_family_holds_its_level_at_the_edge_of_the_tolerance() -> None:
    """Sites that truly differ by the tolerance, paired, 4 batches, 20 sites a family."""
    rng = np.random.default_rng(5)
    families, sites, batches, tolerance = 5000, 20, 4, 0.3
    means = rng.normal(tolerance, 1 / batches**0.5, (families, sites))
    errors = np.sqrt(_variances(rng, batches, (families, sites)) / batches)
    p = difference_p(means, errors, np.full((families, sites), batches - 1.0), tolerance)
    rejected = np.mean([corrected(row)[0].min() <= 0.05 for row in p])
    assert rejected <= 0.05 + 3 * (0.05 * 0.95 / families) ** 0.5
    # It is a test, and no mere refusal: beyond the tolerance it rejects.
    assert difference_p(10.0, 0.5, 3.0, tolerance) < 0.001


def test_an_explicit_pair_of_two_networks_says_so(home: Path, measured: Measured) -> None:
    measured("one", {"a": STEADY}, architecture="narrow")
    measured("two", {"a": STEADY}, architecture="wide")
    (row,) = drift(home, pair=("one", "two")).rows.to_dict("records")
    assert "architecture narrow -> wide" in row["detail"]


def _variances(
    rng: np.random.Generator, batches: int, shape: int | tuple[int, ...]
) -> NDArray[np.float64]:
    return rng.chisquare(batches - 1, shape) / (batches - 1)


def test_the_figure_shows_each_site_and_what_moved(home: Path, measured: Measured) -> None:
    measured("old", {"a": STEADY, "b": STEADY, "gone": STEADY})
    measured("new", {"a": up(STEADY, 0.003), "b": STEADY})
    result = drift(home)
    rows = drift_rows(result).set_index("site_name")
    assert rows["mark"].to_dict() == {"a": "moved", "b": "stayed"}
    assert (rows["high"] - rows["low"]).tolist() == pytest.approx(
        2 * student.ppf(0.975, len(STEADY) - 1) * rows["standard_error"]
    )
    chart, nothing = drift_chart(result), drift_chart(drift(home, since=NOON + timedelta(days=1)))
    assert "1 of 2 sites moved" in drawn.words(chart)
    assert "2 runs" in drawn.words(chart)
    assert len(drawn.marks(chart, "symbol")) == 2
    assert "No site was measured before" in drawn.words(nothing)


@pytest.mark.parametrize("tolerance", [0.0, 0.001, 0.05])
def test_a_difference_said_to_be_shown_is_shown_and_hardly_smaller_ones_are_not(
    tolerance: float,
) -> None:
    error, freedom = np.array([0.0, 1e-4, 0.02, 0.3]), np.array([1.0, 2.0, 7.0, 60.0])
    enough = detectable_difference(error, freedom, tolerance, 1e-4)
    assert (difference_p(enough + 1e-12, error, freedom, tolerance) <= 1e-4).all()
    # A tail that adds nothing was paid for with half the level.
    short = difference_p(0.9 * (enough - tolerance) + tolerance, error, freedom, tolerance)
    assert (short[1:] > 0.4e-4).all()
