"""Every query of the page runs on a real home, whose SQL holds what its frames hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd
import pytest

from analysis import Selection, models, signatures
from catalog.home import Home
from catalog.open_home import open_home
from catalog.registry.label_file import labels_in_file
from catalog.registry.registry import Registry
from catalog.store.reader import reading, result_of
from catalog.store.user_tables import load, user_tables
from catalog.tags import RunLabels
from jobs.run import run_survey
from jobs.runners.local import LocalRunner
from jobs.scan.reporter import Reporter
from tests.analysis.homes import Builder
from tests.jobs.jobs import ON_CPU, declared
from tests.style.repository import ROOT

pytestmark = pytest.mark.slow(seconds=12)

PAGE = (ROOT / "docs" / "queries.md").read_text(encoding="utf-8")
QUERIES = re.findall(r"^```sql\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

#: Random weights too.
EVERY = Selection(untrained=True)

#: In the order of measuring: the last of a network, its checkpoint and its dataset is the latest.
MEASURED = (
    ("digits_vgg7", ("bundled", "init:0"), 64),
    ("digits_vgg7", ("bundled",), 32),
    ("digits_plain14", ("bundled",), 32),
    ("digits_resnet14", ("bundled",), 64),
)


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    opened = open_home(tmp_path_factory.mktemp("queries") / "home", create=True)
    for model, checkpoints, size in MEASURED:
        definition = declared(
            *checkpoints, model=f"small:{model}", dataset="digits[:128]", size=size
        )
        run_survey(opened, definition, LocalRunner(ON_CPU), Reporter())
    with Registry(opened) as registry:
        runs = models(opened.path, EVERY)["run_id"]
        registry.labels.set(
            {run_id: RunLabels(f"net {n}", tags={"epoch": n}) for n, run_id in enumerate(runs)}
        )
    return opened


@pytest.fixture(scope="module")
def ask(home: Home, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Any]]:
    file = tmp_path_factory.mktemp("files") / "robustness.csv"
    (text,) = re.findall(r"^```csv\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    file.write_text(text, encoding="utf-8")
    with reading(home, labels=labels_in_file(home)) as connection:
        load(connection, user_tables([f"robustness={file}"]), 10**9)
        yield lambda sql: result_of(connection, sql).to_arrow_table().to_pandas()


def test_the_page_has_twenty_queries_numbered_from_one() -> None:
    assert len(QUERIES) == 20
    assert re.findall(r"^(\d+)\. ", PAGE, re.MULTILINE) == [str(n) for n in range(1, 21)]


@pytest.mark.parametrize("sql", QUERIES, ids=range(1, 21))
def test_a_query_has_an_answer(sql: str, ask: Callable[[str], pd.DataFrame]) -> None:
    answer = ask(sql)
    if "FROM failures" not in sql:
        assert len(answer)
        assert not list(answer.columns[answer.isna().all()])


def test_no_query_mixes_datasets_or_poolings(tmp_path: Path) -> None:
    """Trained networks are 0.1 above random ones, residual ones 0.2 above plain ones."""
    settings = [("d", "mean"), ("d", "pre"), ("e", "mean"), ("e", "pre")]
    nets = {("digits_vgg7", "bundled"): 0.2, ("digits_vgg7", "init:0"): 0.1}
    nets |= {("digits_resnet14", "bundled"): 0.5, ("digits_plain14", "bundled"): 0.3}
    scores = []
    with Builder(tmp_path) as store:
        for (architecture, checkpoint), score in nets.items():
            for place, (dataset, pooling) in enumerate(settings):
                scores.append(round(score + place / 1000, 3))
                names = {"architecture": architecture, "checkpoint": checkpoint}
                names |= {"dataset": dataset, "pooling": pooling, "source": "small"}
                store(f"{architecture}-{checkpoint}-{place}", [scores[-1]] * 2, **names)
    with reading(open_home(tmp_path, create=False)) as connection:
        answers = {
            number: result_of(connection, QUERIES[number - 1]).to_arrow_table().to_pandas()
            for number in (3, 6, 7, 10, 11, 13, 16)
        }
    assert answers[3].iloc[0, 1:].astype(float).round(3).sort_values().tolist() == sorted(scores)
    assert answers[6]["change"].tolist() == pytest.approx([0.1] * 8)
    twins = answers[7]["residual"] - answers[7]["plain"]
    assert twins.tolist() == pytest.approx([0.2] * 8)
    for number in (10, 11, 16):
        assert set(answers[number]["affinity"].astype(float).round(3)) == set(scores)
    assert len(answers[13]) == len(scores)


def test_sql_holds_what_the_frames_hold(home: Home, ask: Callable[[str], pd.DataFrame]) -> None:
    table, frame = ask("FROM latest_signatures ORDER BY run_id, site"), signatures(home.path, EVERY)
    frame = frame.sort_values(["run_id", "site"]).reset_index(drop=True)
    assert sorted(table["images_per_score"].unique()) == [32, 64]
    assert table["run_id"].nunique() == 4 < ask("FROM runs")["run_id"].nunique()
    table["flags"] = [tuple(each) for each in table["flags"]]
    shared = [name for name in table if name in frame and name not in ("label", "tags")]
    assert {"affinity", "relative_depth", "flags", "ridge", "year", "cka"} <= set(shared)
    pd.testing.assert_frame_equal(table[shared], frame[shared])
    by_model = ask("SELECT run_id, affinity FROM models").set_index("run_id")["affinity"]
    means = frame.groupby("run_id")["affinity"].mean()
    pd.testing.assert_series_equal(by_model.sort_index(), means, check_names=False)


def test_labels_and_tags_are_those_of_the_registry(ask: Callable[[str], pd.DataFrame]) -> None:
    rows = ask("SELECT label, tags['epoch']::INT AS epoch FROM models ORDER BY epoch")
    assert list(rows.itertuples(index=False, name=None)) == [(f"net {n}", n) for n in range(4)]


def test_nothing_is_written_by_a_query(ask: Callable[[str], pd.DataFrame], tmp_path: Path) -> None:
    with pytest.raises(duckdb.Error, match="disabled"):
        ask(f"SELECT * FROM read_csv('{tmp_path}/none.csv')")
