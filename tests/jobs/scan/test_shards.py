"""Sharing a job out: no batch twice, none missing, and only where it is worth it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.store.records import RunState, Span
from jobs.runners.task import Shard
from jobs.scan.job_progress import JobProgress
from jobs.scan.shards import LEAST_SECONDS, remaining_shards, shard_count, split
from tests.jobs.jobs import job


def covered(shards, batches):
    """Return the batches of shards, in order, up to a number."""
    return [
        number
        for shard in shards
        for number in range(shard.first, batches if shard.stop is None else shard.stop)
    ]


@given(st.sets(st.integers(0, 30)))
def test_what_is_missing_and_what_is_done_are_all(numbers):
    spans = []
    for number in sorted(numbers):
        if spans and spans[-1].stop == number:
            spans[-1] = Span(spans[-1].first, number + 1, 10 * (number + 1))
        else:
            spans.append(Span(number, number + 1, 10 * (number + 1)))
    shards = remaining_shards(spans)
    assert sorted([*covered(shards, 40), *numbers]) == list(range(40))
    assert shards[-1].stop is None
    assert all(shard.position == 10 * shard.first for shard in shards)


@given(st.integers(0, 20), st.integers(1, 9), st.integers(0, 40))
def test_the_shards_of_a_shard_cover_it(first, count, batches):
    whole = Shard(first, None, 7)
    shards = list(split(whole, count, batches))
    assert covered(shards, max(batches, first)) == list(range(first, max(batches, first)))
    assert len(shards) == max(1, min(count, batches - first))
    assert (shards[0].position, shards[-1].stop) == (7, None)
    # Where the shards after the first begin nobody knows before the images are counted.
    assert all(shard.position is None for shard in shards[1:])
    lengths = [shard.stop - shard.first for shard in shards[:-1]]
    assert not lengths or max(lengths) - min(lengths) <= 1


def test_a_bounded_shard_stays_bounded():
    assert [(p.first, p.stop) for p in split(Shard(4, 10, 3), 3, 99)] == [(4, 6), (6, 8), (8, 10)]


@pytest.mark.parametrize(
    ("seconds", "total", "workers", "expected"),
    [
        (1000, 1000, 4, 4),
        (1000, 1000, 1, 1),
        (1000, 4000, 4, 1),
        (1000, 2000, 4, 2),
        (1, 1, 4, 1),
        (3 * LEAST_SECONDS, 3 * LEAST_SECONDS, 100, 3),
    ],
)
def test_a_job_is_spread_if_the_others_would_wait_for_it(seconds, total, workers, expected):
    assert shard_count(seconds, total, workers) == expected


def test_a_job_that_lacks_measures_alone_is_one_shard():
    (shard,) = JobProgress(job(), RunState(status="done")).waiting
    assert list(split(shard, 4, 7)) == [shard] == [Shard(0, 0)]
