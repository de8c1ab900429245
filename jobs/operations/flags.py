"""The flags of what was measured, as ``survey run``, ``status`` and ``show`` announce them."""

from __future__ import annotations

from collections.abc import Sequence

from catalog.home import Home
from catalog.store.queries import flag_counts
from survey.results import flag_sentences


def flag_lines(home: Home, run_ids: Sequence[str] | None = None) -> list[str]:
    """Return how many sites of some runs, by default all, bear each flag, and its meaning."""
    sites, enough = flag_counts(home, run_ids)
    return flag_sentences(sites, enough=enough)
