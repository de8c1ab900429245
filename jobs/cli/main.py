"""The console script. Importing the verbs registers them; their work is imported when they run."""

from __future__ import annotations

import gc
import os

from jobs.cli import (
    activations,
    checkpoints,
    cluster,
    compare,
    correlate,
    datasets,
    demo,
    doctor,
    drift,
    fetch,
    jobs,
    models,
    neighbours,
    plan,
    regress,
    report,
    run,
    schedule,
    show,
    sql,
    status,
    timeline,
)
from jobs.cli.app import app

__all__ = [
    "activations",
    "app",
    "checkpoints",
    "cluster",
    "compare",
    "correlate",
    "datasets",
    "demo",
    "doctor",
    "drift",
    "fetch",
    "jobs",
    "main",
    "models",
    "neighbours",
    "plan",
    "regress",
    "report",
    "run",
    "schedule",
    "show",
    "sql",
    "status",
    "timeline",
]


def main() -> None:
    """Run the command line."""
    # Importing makes hundreds of thousands of objects that stay: looking among them for garbage
    # every 700 takes a tenth of what a short verb does.
    gc.set_threshold(50_000)
    # A survey tells nobody what it measures; who wants Ray's statistics sets this to 1.
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    app()


if __name__ == "__main__":
    main()
