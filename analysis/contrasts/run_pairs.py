"""Predecessors: which run of the same names was measured before another, and what differs.

A run's predecessor is the newest finished run before it of the same source, architecture,
checkpoint name and dataset name whose ``COMPARABLE`` settings are the same: runs of other settings
have predecessors of their own. Reads the signature store; compares no score, which is what
``analysis.contrasts.drift_between_runs`` does.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Literal

from analysis.data.model_names import Run
from analysis.data.run_tags import with_labels
from analysis.data.selection import Selection
from catalog.datasets.subset import without_order
from catalog.home import Home
from catalog.registry.labels import labels_of
from catalog.store.reader import query, run_row
from survey.errors import DatasetError, SettingsError

#: Settings that must be equal for two runs to be compared.
COMPARABLE = ("images_per_score", "pooling", "shrinkage", "ridge")

_FIRST = "no finished run of its name and settings before"

_VERSIONS = (
    "measuring_version",
    *("torch_version", "torchvision_version", "numpy_version", "scipy_version"),
)


@dataclass(frozen=True, slots=True)
class RunPair:
    """A run and its predecessor."""

    before: Run
    after: Run

    @property
    def paired(self) -> bool:
        """Whether batch k of one holds the images of batch k of the other."""
        names = ("dataset_fingerprint", "images_per_score", "skipped_images")
        known = self.before["dataset_fingerprint"] is not None
        return known and all(self.before[name] == self.after[name] for name in names)

    @property
    def settings_that_differ(self) -> str:
        """Settings for which the two cannot be compared, from what to what; empty for none."""
        return ", ".join(_differences(self.before, self.after, COMPARABLE))

    @property
    def causes(self) -> str:
        """What else is known to differ, which may be why scores moved."""
        return ", ".join(_causes(self.before, self.after))


@dataclass(frozen=True, slots=True)
class Alone:
    """A run that is not compared with a predecessor."""

    #: Why it has no counterpart.
    verdict: Literal["run appeared", "run vanished"]
    #: The run before it, where there is one.
    before: Run | None
    after: Run
    #: The reason, as a clause.
    detail: str


_RUNS = """
SELECT run_id, source, architecture, family, family_group, checkpoint, dataset, status, stage,
  error, checkpoint_sha256, dataset_fingerprint, images_per_score, skipped_images, micro_batch,
  pooling, shrinkage, ridge, transform, measuring_version, torch_version, torchvision_version,
  numpy_version, scipy_version, device_name, threads, finished_at
FROM runs WHERE status IN ('done', 'failed') AND finished_at IS NOT NULL
ORDER BY finished_at, run_id
"""


def ended_runs(home: Home, selection: Selection) -> list[Run]:
    """Return the ended runs that are selected, oldest first.

    Raises
    ------
    SettingsError
        If there are some, and none is selected.
    """
    result = with_labels(query(home, _RUNS).to_pylist(), labels_of(home))
    # Every repeat of any ridge counts here: pairs never mix settings, and one repeat is another's
    # predecessor. In a new home nothing has ended yet.
    return selection.fitting(result) if result else []


def explicit_pair(home: Home, names: tuple[str, str]) -> RunPair:
    """Return two runs by their ids, the earlier one first, as a pair.

    Raises
    ------
    SettingsError
        If one has not finished, they are one run, or their settings differ.
    UnknownName
        If one is not known.
    """
    before, after = (asdict(run_row(home, name)) for name in names)
    for run in (before, after):
        if run["status"] != "done":
            raise SettingsError(
                f"run {run['run_id']} is {run['status']}, only finished runs can be compared",
                hint="run its survey again to go on with it",
            )
    if before["run_id"] == after["run_id"]:
        raise SettingsError(f"a run cannot be compared with itself: {before['run_id']}")
    pair = RunPair(before, after)
    if pair.settings_that_differ:
        raise SettingsError(
            f"runs {before['run_id']} and {after['run_id']} cannot be compared, their settings"
            f" differ: {pair.settings_that_differ}",
            hint="measure one of them again with the settings of the other",
        )
    return pair


def with_predecessors(
    runs: Sequence[Run], since: datetime | None, *, any_order: bool
) -> tuple[list[RunPair], list[Alone]]:
    """Return the pairs to compare, and each run that has no counterpart.

    Parameters
    ----------
    runs : sequence of Run
        Ended runs, oldest first.
    since : datetime or None
        Look at every run that finished since then; None for the newest of each name and settings.
    any_order : bool
        Whether a run on another order of the same dataset may be a predecessor.
    """
    pairs: list[RunPair] = []
    others: list[Alone] = []
    named: defaultdict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for run in runs:
        named[_name(run, any_order=any_order)] += [run] if run["status"] == "done" else []
    for history in _histories(runs, any_order=any_order):
        done = [run for run in history if run["status"] == "done"]
        for place in _looked_at(done, since):
            if place:
                pairs.append(RunPair(done[place - 1], done[place]))
            else:
                of_name = named[_name(done[place], any_order=any_order)]
                others.append(_first(done[place], of_name[: of_name.index(done[place])]))
        last = history[-1]
        if done and last["status"] == "failed" and (since is None or last["finished_at"] >= since):
            detail = f"measuring it again failed at {last['stage']}: {last['error']}"
            others.append(Alone("run vanished", done[-1], last, detail))
    return pairs, others


def _histories(runs: Iterable[Run], *, any_order: bool) -> Iterable[list[Run]]:
    """Return the runs of each name and settings, in their order."""
    histories: defaultdict[tuple[Any, ...], list[Run]] = defaultdict(list)
    for run in runs:
        settings = (run[name] for name in COMPARABLE)
        histories[*_name(run, any_order=any_order), *settings].append(run)
    return histories.values()


def _name(run: Run, *, any_order: bool) -> tuple[str, ...]:
    dataset = _name_without_order(run["dataset"]) if any_order else run["dataset"]
    return run["source"], run["architecture"], run["checkpoint"], dataset


def _first(run: Run, earlier: Sequence[Run]) -> Alone:
    """Return the first run of its name and settings, with what differs from those before it."""
    settings = ", ".join(_differences(earlier[-1], run, COMPARABLE)) if earlier else ""
    detail = f"{_FIRST}; settings differ: {settings}" if settings else _FIRST
    return Alone("run appeared", None, run, detail)


def _looked_at(done: Sequence[Run], since: datetime | None) -> Iterable[int]:
    if since is None:
        return range(max(0, len(done) - 1), len(done))
    return [place for place, run in enumerate(done) if run["finished_at"] >= since]


def _differences(before: Run, after: Run, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if before[name] != after[name]:
            yield f"{name} {before[name]} -> {after[name]}"


def _causes(before: Run, after: Run) -> Iterator[str]:
    """Yield what two runs are known to differ in, beside their scores."""
    yield from _differences(before, after, ("source", "architecture"))
    if before["checkpoint_sha256"] != after["checkpoint_sha256"]:
        yield "other weights"
    if before["dataset_fingerprint"] != after["dataset_fingerprint"]:
        yield "other images or order"
    if json.loads(before["transform"] or "{}") != json.loads(after["transform"] or "{}"):
        yield "other input transform"
    versions = [name for name in _VERSIONS if before[name] and after[name]]
    yield from _differences(before, after, [*versions, "device_name", "threads", "micro_batch"])


def _name_without_order(dataset: str) -> str:
    try:
        return without_order(dataset)
    except DatasetError:
        # A name recorded by an older version may be no dataset today.
        return dataset
