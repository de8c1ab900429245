"""What a user asks of a home: show, status, sql, plan, in every format."""

import csv
import io
import json

import pyarrow.parquet
import pytest

from catalog.store.schema import METRIC_COLUMNS
from tests.acceptance.command import rows, start, survey


def selected(sql, home):
    return json.loads(survey("sql", sql, "--format", "json", home=home).stdout)


def test_the_names_users_rely_on_exist(finished_home):
    selected(
        "SELECT run_id, architecture, source, family, checkpoint, dataset, status, measured_top1,"
        " measured_top5 FROM runs",
        finished_home,
    )
    selected(
        "SELECT run_id, batch, site, site_name, activation, graph_depth, role, repeat, spatial,"
        " channels, affinity, status, cka, norm, sparsity_change, entropy_change, r2, notes"
        " FROM batch_scores LIMIT 1",
        finished_home,
    )
    selected(
        "SELECT run_id, architecture, checkpoint, dataset, site, site_name, affinity,"
        " affinity_std, affinity_se, batches FROM signatures LIMIT 1",
        finished_home,
    )
    selected("SELECT * FROM failures", finished_home)


def test_signatures_are_means_over_batches_with_their_error(finished_home):
    (wrong,) = selected(
        """WITH by_site AS (
             SELECT run_id, site, avg(affinity) AS mean, stddev_samp(affinity) AS std, count(*) AS n
             FROM batch_scores GROUP BY ALL)
           SELECT count(*) FILTER (abs(mean - affinity) > 1e-12 OR abs(std - affinity_std) > 1e-12
             OR abs(std / sqrt(n) - affinity_se) > 1e-12 OR n <> batches) AS wrong, count(*)
             AS sites FROM by_site JOIN signatures USING (run_id, site)""",
        finished_home,
    )
    assert wrong == {"wrong": 0, "sites": 26}


def test_accuracy_is_over_every_image(finished_home):
    runs = selected("SELECT images, measured_top1, measured_top5, batches FROM runs", finished_home)
    for run in runs:
        assert run["images"] == 1797
        assert run["batches"] == 8  # seven of 256 images, and five images that are not scored
        assert 0.95 < run["measured_top1"] <= run["measured_top5"] <= 1
    assert selected("SELECT max(batch) AS last FROM batch_scores", finished_home) == [{"last": 6}]


def test_show_finds_a_run_by_the_beginning_of_its_id(finished_home):
    run = rows("SELECT run_id FROM runs ORDER BY 1 LIMIT 1", finished_home)[0]["run_id"]
    ended = survey("show", run[:6], home=finished_home)
    assert f"run {run}" in ended.stderr
    lines = ended.stdout.splitlines()
    assert len(lines) == 13 + 2
    for name in ("role", "repeat", "depth", "spatial", "affinity", "se", "flags"):
        assert name in lines[0].split()
    assert max(map(len, lines)) <= 130
    assert "unknown run" in survey("show", "zzz", home=finished_home, code=2).stderr


def test_show_has_every_metric_for_who_asks(finished_home):
    run = rows("SELECT run_id FROM runs ORDER BY 1 LIMIT 1", finished_home)[0]["run_id"]
    lines = survey("show", run, "--metrics", home=finished_home).stdout.splitlines()
    shown = lines[0].split()
    assert {"cka", "norm_relative", "sparsity_change", "entropy_change", "r2"} <= set(shown)
    assert shown[-1] == "effective_rank"
    assert max(map(len, lines)) <= 140
    whole = json.loads(survey("show", run, "--format", "json", home=finished_home).stdout)
    assert {column.name for column in METRIC_COLUMNS} <= set(whole[0])
    assert {"role", "repeat", "graph_depth", "layout", "spatial", "notes"} <= set(whole[0])


def test_status_says_what_is_done(finished_home):
    ended = survey("status", "--format", "json", home=finished_home)
    assert {job["state"] for job in json.loads(ended.stdout)} == {"done"}
    assert "2 done; no scan is writing" in ended.stderr


@pytest.mark.parametrize("place", ["before", "after"])
def test_home_and_format_stand_before_or_after_the_verb(place, finished_home, tmp_path):
    options = ["--home", str(finished_home), "--format", "json"]
    verb = ["sql", "SELECT count(*) AS runs FROM runs"]
    arguments = [*options, *verb] if place == "before" else [*verb, *options]
    ended = survey(*arguments, home=tmp_path / "another")
    assert json.loads(ended.stdout) == [{"runs": 2}]


def test_csv_and_parquet_hold_the_same(finished_home, tmp_path):
    sql = "SELECT run_id, site, affinity FROM signatures ORDER BY ALL"
    text = survey("sql", sql, "--format", "csv", home=finished_home).stdout
    written = survey("sql", sql, "-o", tmp_path / "s.parquet", home=finished_home)
    assert "26 rows written to" in written.stderr
    table = pyarrow.parquet.read_table(tmp_path / "s.parquet").to_pylist()
    read = list(csv.DictReader(io.StringIO(text)))
    assert [float(row["affinity"]) for row in read] == [row["affinity"] for row in table]


def test_a_pipe_that_closes_early_is_no_error(finished_home):
    process = start("sql", "SELECT * FROM range(1000000)", "--format", "csv", home=finished_home)
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


def test_plan_says_what_is_done_and_runs_nothing(finished_home, tmp_path):
    arguments = ("plan", "-m", "small:digits_*", "--images-per-score", "256", "--format", "json")
    ended = survey(*arguments, home=finished_home)
    states = [job["state"] for job in json.loads(ended.stdout)]
    assert sorted(states) == ["done"] * 2 + ["new"] * 6
    assert "6 to measure, 2 done" in ended.stderr
    survey(*arguments, home=tmp_path / "home")
    assert not (tmp_path / "home").exists()


def test_the_same_command_again_measures_nothing(finished_home):
    before = rows("SELECT run_id, attempt, finished_at FROM runs ORDER BY 1", finished_home)
    ended = survey(
        "run", "-m", "small:digits_*14", "--images-per-score", "256", "--runner", "local",
        home=finished_home,
    )  # fmt: skip
    assert "0 of 2 jobs to measure, 2 already measured and skipped" in ended.stderr
    assert before == rows("SELECT run_id, attempt, finished_at FROM runs ORDER BY 1", finished_home)
