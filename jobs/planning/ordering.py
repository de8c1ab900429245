"""The order of jobs: the longest first, those that share decoded images together.

The first of a group decodes its images for all. The jobs given out last should be short, so that
all workers end at about the same time.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence

from jobs.planning.job import Job


def ordered(jobs: Sequence[Job], seconds: Mapping[str, float]) -> list[Job]:
    """Return jobs in the order in which they are given out.

    Parameters
    ----------
    jobs : sequence of Job
        The jobs.
    seconds : mapping of str to float
        Expected seconds of each, by run id.
    """
    groups: defaultdict[tuple[object, ...], list[Job]] = defaultdict(list)
    for job in jobs:
        groups[pixels_of(job)].append(job)
    longest_first = sorted(
        groups.values(), key=lambda group: -sum(seconds[job.run_id] for job in group)
    )
    return [
        job
        for group in longest_first
        for job in sorted(
            group,
            key=lambda job: (-seconds[job.run_id], job.full_name, job.checkpoint_sha256, job.key),
        )
    ]


def pixels_of(job: Job) -> tuple[object, ...]:
    """Return everything that the decoded images of a job depend on."""
    plain = dataclasses.replace(job.transform, mean=(0.0,) * 3, std=(1.0,) * 3)
    return job.dataset_fingerprint, plain
