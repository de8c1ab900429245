"""The runner protocol: a runner computes tasks on workers and passes on their events.

An installed package brings a runner by an entry point in the group ``model_zoo_survey.runners``,
and tests it by inheriting ``jobs.contract_tests.runner.RunnerContract``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, Self

from jobs.planning.worker_layout import Devices, Machine
from jobs.runners.events import Event, Host
from jobs.runners.task import AnyTask


class TaskSource(Protocol):
    """Where a runner asks for tasks, one worker at a time, so that none waits in a queue."""

    def next_tasks(self, host: Host) -> tuple[AnyTask, ...]:
        """Return the next tasks of an idle worker: several short ones, or one that is long.

        Empty where there is nothing to do at present: a task that another worker loses may come
        back, so a runner asks again after every event.
        """

    def is_withdrawn(self, run_id: str) -> bool:
        """Return whether a run was cancelled, or failed elsewhere; its workers are stopped."""

    def is_over(self) -> bool:
        """Return whether every run is over, cancelled ones included.

        For a runner without any worker, which has nobody to ask for tasks.
        """


class Runner(Protocol):
    """Computes tasks on one or more workers.

    A runner is a context manager: entering it starts whatever its workers need, leaving it stops
    them. It is made by calling its class with ``jobs.runners.options.RunnerOptions``, refuses
    options it cannot follow with ``survey.SettingsError``, and is entered once.

    A worker computes a task with ``jobs.runners.worker.run_task`` and passes on what that yields.
    The events of one attempt keep their order: ``Started``, then a ``NetworkRecord`` for each
    measure of the whole network that is asked for, with ``Measuring`` before it where it reads
    images, ``BatchRecord``, ``Skipped`` and ``Halved``, and at the end ``Finished`` or ``Failed``.
    Of a training: ``Started``, a ``Trained`` for each pass, ``NetworkLinearised`` and ``Finished``.
    Batches of other processes may come as ``catalog.store.arrow_rows.packed`` gives them, which
    spares the caller the making of their rows.
    A worker that was given several tasks computes them one after another. The runner itself adds
    two events: ``Lost`` ends the attempt of a worker that died or hung, and ``Returned`` each of
    its tasks that had not begun. No event of an attempt follows its end. The attempt of a withdrawn
    run may end without an event.

    A worker that dies before it asks for tasks costs no attempt. The runner starts another, on
    another machine where it can, a bounded number of times in a row.
    """

    #: What ``--runner`` calls it.
    name: str

    @property
    def devices(self) -> Devices:
        """The workers; known once the runner is entered."""

    @property
    def machines(self) -> Sequence[Machine]:
        """The machines; known once the runner is entered."""

    def __enter__(self) -> Self:
        """Start.

        Raises
        ------
        survey.ClusterError
            If there is nothing to compute on.
        """

    def __exit__(self, *exc: object) -> None:
        """Stop the workers, whatever they are doing."""

    def run(self, source: TaskSource) -> Iterator[tuple[Event, ...]]:
        """Compute tasks until the source has none and every worker is idle.

        Parameters
        ----------
        source : TaskSource
            Gives the tasks.

        Yields
        ------
        tuple of Event
            All events that arrived since the last ones, in order. The caller stores them before it
            asks for more: a runner must bound how far its workers get ahead of a slow store.

        Raises
        ------
        survey.ClusterError
            If no worker can go on, or none starts: with the cause.
        """
