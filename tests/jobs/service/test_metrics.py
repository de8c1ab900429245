"""What Prometheus is told: numbers that are counted by hand here."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.registry.rows import JobEntry
from tests.analysis.homes import Builder
from tests.jobs.service.conftest import Serve


def test_metrics_count_what_the_home_holds(serve: Serve, home: Home) -> None:
    with Builder(home.path) as build:
        for number in range(3):
            # Each batch took a second.
            build(f"r{number}", [[0.5, 0.25, 0.125]] * 2)
    with Registry(home) as registry:
        rest = ("net", "small", "bundled", "digits", {})
        survey = registry.record_survey("s", {})
        registry.add_jobs(survey, [JobEntry(f"k{n}", f"r{n}", *rest) for n in range(5)])
        registry.set_states(["k0", "k1"], "done", ["todo"])
    waiting = [path.stat().st_size for path in home.spool.glob("*.arrow")]
    families = text_string_to_metric_families(serve().get("/metrics").text)
    values = {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }
    assert values["survey_jobs", "done"] == 2
    assert values["survey_jobs", "todo"] == values["survey_queue", "jobs"] == 3
    assert values["survey_queue", "surveys"] == 0
    assert values["survey_rows", "runs"] == 3
    assert values["survey_rows", "batch_scores"] == 3 * 2 * 3
    assert values["survey_measuring_seconds_total",] == 3 * 2
    assert values["survey_store_bytes",] == home.signatures.stat().st_size
    assert values["survey_backlog_segments",] == len(waiting)
    assert values["survey_backlog_bytes",] == sum(waiting)
