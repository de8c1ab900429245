"""Sharing a job out: no batch twice, none missing, and only where it is worth it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catalog.store.records import Span
from jobs.runners.task import Part
from jobs.scan.shards import LEAST_SECONDS, missing, pieces, split


def covered(parts, batches):
    """Return the batches of some parts, in order, up to a number."""
    return [
        number
        for part in parts
        for number in range(part.first, batches if part.stop is None else part.stop)
    ]


@given(st.sets(st.integers(0, 30)))
def test_what_is_missing_and_what_is_done_are_all(numbers):
    spans = []
    for number in sorted(numbers):
        if spans and spans[-1].stop == number:
            spans[-1] = Span(spans[-1].first, number + 1, 10 * (number + 1))
        else:
            spans.append(Span(number, number + 1, 10 * (number + 1)))
    parts = missing(spans)
    assert sorted([*covered(parts, 40), *numbers]) == list(range(40))
    assert parts[-1].stop is None
    assert all(part.position == 10 * part.first for part in parts)


@given(st.integers(0, 20), st.integers(1, 9), st.integers(0, 40))
def test_the_pieces_of_a_part_are_the_part(first, count, batches):
    part = Part(first, None, 7)
    parts = list(split(part, count, batches))
    assert covered(parts, max(batches, first)) == list(range(first, max(batches, first)))
    assert len(parts) == max(1, min(count, batches - first))
    assert (parts[0].position, parts[-1].stop) == (7, None)
    # Where the pieces after the first begin nobody knows before the images are counted.
    assert all(piece.position is None for piece in parts[1:])
    lengths = [piece.stop - piece.first for piece in parts[:-1]]
    assert not lengths or max(lengths) - min(lengths) <= 1


def test_a_bounded_part_stays_bounded():
    assert [(p.first, p.stop) for p in split(Part(4, 10, 3), 3, 99)] == [(4, 6), (6, 8), (8, 10)]


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
    assert pieces(seconds, total, workers) == expected
