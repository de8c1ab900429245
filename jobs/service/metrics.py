"""What Prometheus watches of a home: its jobs, rows, seconds, the store and its backlog."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from catalog.home import Home, segment_paths
from catalog.registry.registry import Registry
from catalog.registry.rows import JobState
from catalog.store.queries import store_size


class HomeCollector(Collector):
    """Counts when it is asked.

    Parameters
    ----------
    home : Home
        The home.
    registry : Registry
        Its registry.
    """

    def __init__(self, home: Home, registry: Registry) -> None:
        self._home, self._registry = home, registry

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics."""
        jobs = Counter(job.state for job in self._registry.overview())
        states = GaugeMetricFamily("survey_jobs", "Jobs by state.", labels=["state"])
        for state in get_args(JobState):
            states.add_metric([state], jobs[state])
        yield states
        queue = GaugeMetricFamily("survey_queue", "What is to be done.", labels=["kind"])
        queue.add_metric(["jobs"], jobs["todo"])
        queue.add_metric(["surveys"], len(self._registry.submissions.open()))
        yield queue
        size = store_size(self._home)
        rows = GaugeMetricFamily("survey_rows", "Rows by table.", labels=["table"])
        for table in ("runs", "batches", "batch_scores"):
            rows.add_metric([table], size[table])
        yield rows
        seconds = "Seconds of measuring, over all runs."
        yield CounterMetricFamily("survey_measuring_seconds", seconds, size["seconds"])
        yield from self._files()

    def _files(self) -> Iterator[Metric]:
        store = "Bytes of the file of the signature store."
        yield GaugeMetricFamily("survey_store_bytes", store, _bytes(self._home.signatures))
        waiting = segment_paths(self._home.spool)
        backlog = "Segments that are not merged into the store yet."
        yield GaugeMetricFamily("survey_backlog_segments", backlog, len(waiting))
        backlog_bytes = sum(map(_bytes, waiting))
        yield GaugeMetricFamily("survey_backlog_bytes", "Bytes of these.", backlog_bytes)


def _bytes(path: Path) -> int:
    # A segment may be merged meanwhile.
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
