"""Every answer with a p-value names the unit that replicates it, and no other does."""

from __future__ import annotations

import pytest

from analysis.answers import ANSWERS, Answer
from analysis.answers.columns import columns_of

#: Columns that come of a test.
TESTS = {"p", "p_corrected", "p_picked", "dip_p", "q"}

#: Answers whose finding alone has a p-value.
SAID = {"timeline", "depth"}


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.name)
def test_a_p_value_has_a_unit_of_replication(answer: type[Answer]) -> None:
    columns = {column.name for column in columns_of(answer.columns)}
    assert bool(columns & TESTS or answer.name in SAID) == bool(answer.unit)
