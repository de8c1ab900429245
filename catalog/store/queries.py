"""The statements of ``queries.sql``, each a function."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from catalog.home import Home
from catalog.store.reader import query, query_rows
from survey.few_images import enough_images

if TYPE_CHECKING:
    import pyarrow as pa

_ENTRY = re.compile(r"^-- name: (\w+)\n((?:(?!-- name:).*\n)+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class NamedQuery:
    """A statement of the file."""

    name: str
    #: What it gives, in a sentence.
    sentence: str
    sql: str

    @property
    def parameters(self) -> frozenset[str]:
        """The names of its ``$name`` parameters."""
        return frozenset(re.findall(r"\$(\w+)", self.sql))


def named_queries() -> dict[str, NamedQuery]:
    """Return every statement of the file by its name."""
    return {name: _named(name, text) for name, text in _statements().items()}


def _named(name: str, text: str) -> NamedQuery:
    first, _, sql = text.partition("\n")
    return NamedQuery(name, first.removeprefix("-- "), sql.strip().removesuffix(";"))


def run_query(home: Home, named: NamedQuery, values: dict[str, Any]) -> pa.Table:
    """Return the result of a statement of the file, with the values of its parameters."""
    return query(home, named.sql, values)


@cache
def _statements() -> dict[str, str]:
    """Return every statement of the file by its name."""
    return dict(_ENTRY.findall(Path(__file__).with_name("queries.sql").read_text(encoding="utf-8")))


def signatures_overview(home: Home) -> pa.Table:
    """Return one row a run: what it is, how far it came, its accuracy, affinities and flags."""
    return query(home, _statements()["signatures_overview"])


def run_measures(home: Home, run_id: str) -> pa.Table:
    """Return one run's measures of its whole network, or the reason for having none."""
    return query(home, _statements()["run_measures"], {"run_id": run_id})


def run_sites(home: Home, run_id: str) -> pa.Table:
    """Return one run's signature site by site, with its spread over batches."""
    return query(home, _statements()["run_sites"], {"run_id": run_id})


def flag_counts(
    home: Home, run_ids: Sequence[str] | None = None
) -> tuple[dict[str, int], int | None]:
    """Return how many sites bear each flag, and the images a score that ``few_images`` asks for.

    Parameters
    ----------
    home : Home
        The home.
    run_ids : sequence of str, optional
        The runs; all by default.

    Returns
    -------
    sites : dict
        Number of sites by flag.
    enough : int or None
        Images a score with which none would bear ``few_images``; None where none does.
    """
    values = {"run_ids": None if run_ids is None else list(run_ids)}
    rows = query_rows(home, _statements()["flag_counts"], values)
    widest = next((row["channels"] for row in rows if row["flag"] == "few_images"), None)
    enough = None if widest is None else enough_images(widest)
    return {row["flag"]: row["sites"] for row in rows}, enough


def run_costs(home: Home) -> pa.Table:
    """Return what each finished run took: work, images, seconds, device, memory."""
    return query(home, _statements()["run_costs"])


def run_progress(home: Home) -> list[dict[str, Any]]:
    """Return how far every run is: quick, for those who look often."""
    return query_rows(home, _statements()["run_progress"])


def batch_affinities(home: Home, run_ids: Sequence[str]) -> pa.Table:
    """Return every batch score of some runs, in the order of batches and sites."""
    return query(home, _statements()["batch_affinities"], {"run_ids": list(run_ids)})


def store_size(home: Home) -> dict[str, Any]:
    """Return how many rows the tables have, and the seconds that all runs took."""
    (row,) = query_rows(home, _statements()["store_size"])
    return row
