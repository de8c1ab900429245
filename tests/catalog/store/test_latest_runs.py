"""Which of several runs that measured the same counts, against the rule in plain Python."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from catalog.arrow_arrays import table_of
from catalog.store.arrow_rows import RUN_SCHEMA
from catalog.store.latest_runs import MEASURED, chosen_runs, latest_of, newest_each, of_one_ridge

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)

Run = dict[str, Any]

SCHEMA = pa.schema(
    [RUN_SCHEMA.field(name) for name in ("run_id", "status", "ridge", "finished_at", *MEASURED)]
)

RUNS = st.lists(
    st.fixed_dictionaries(
        {
            "status": st.sampled_from(["done", "done", "failed", "running"]),
            "ridge": st.sampled_from(["absolute", "relative", None]),
            "finished_at": st.none() | st.integers(0, 3).map(lambda h: NOON + timedelta(hours=h)),
            "architecture": st.sampled_from("abc"),
            "checkpoint": st.sampled_from("xy"),
            "dataset": st.sampled_from("uv"),
        }
    ),
    max_size=12,
).map(
    lambda rows: [
        {**row, "run_id": f"r{n:02d}", "source": "small", "pooling": "mean"}
        for n, row in enumerate(rows)
    ]
)


def what(run: Run) -> tuple[str, ...]:
    return tuple(run[name] for name in MEASURED)


def one_ridge(runs: list[Run]) -> list[Run]:
    models = {
        ridge: len({what(r) for r in runs if r["ridge"] == ridge and r["status"] == "done"})
        for ridge in ("relative", "absolute")
    }
    if not any(models.values()):
        return runs
    return [run for run in runs if run["ridge"] in (max(models, key=lambda r: models[r]), None)]


def newest(runs: list[Run]) -> list[Run]:
    def rank(run: Run) -> tuple[Any, ...]:
        ended = run["finished_at"]
        return run["status"] == "done", ended is not None, ended or NOON, run["run_id"]

    best = {what(run): run for run in sorted(runs, key=rank)}
    return list(best.values())


@given(RUNS)
@settings(max_examples=25)
def test_the_rule_in_sql_is_the_rule_in_python(runs: list[Run]) -> None:
    table = table_of(runs, SCHEMA)

    def chosen(rule: str) -> list[str]:
        return [str(run_id) for run_id in chosen_runs(table, rule)["run_id"]]

    for rule, expected in (
        (of_one_ridge("runs"), one_ridge(runs)),
        (newest_each("runs"), newest(runs)),
        (latest_of("runs"), newest(one_ridge(runs))),
    ):
        assert chosen(rule) == sorted(run["run_id"] for run in expected)
