"""The pace of one attempt: its heartbeat and its deadline."""

from __future__ import annotations

from time import monotonic

from jobs.runners.heartbeat import Heartbeat
from survey import ClusterError


class AttemptPace:
    """Beats the heartbeat of an attempt, which ends with its deadline.

    Parameters
    ----------
    heartbeat : Heartbeat
        Counts its steps.
    deadline : float or None
        Seconds that it may take from now on; None without one.
    """

    def __init__(self, heartbeat: Heartbeat, deadline: float | None) -> None:
        self._heartbeat, self._deadline = heartbeat, deadline
        self._began = monotonic()

    def step(self) -> None:
        """Count a step.

        Raises
        ------
        ClusterError
            If the attempt took longer than its deadline.
        """
        self._heartbeat.beat()
        if self._deadline is not None and monotonic() - self._began > self._deadline:
            raise ClusterError(
                f"not done after {self._deadline:g} seconds, the deadline of a job",
                hint="finished batches are kept: give more time (--deadline) and run it again",
            )
