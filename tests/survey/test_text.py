"""A number with its noun, as every room says it."""

from __future__ import annotations

from survey.text import counted


def test_one_thing_is_no_plural():
    assert [counted(number, "site") for number in (0, 1, 2)] == ["0 sites", "1 site", "2 sites"]
    assert counted(1, "family", "families") == "1 family"
    assert counted(3, "family", "families") == "3 families"


def test_thousands_are_set_apart():
    assert counted(1200, "row") == "1,200 rows"
