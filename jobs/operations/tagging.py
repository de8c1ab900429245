"""Labels and tags of runs that are already planned or measured: setting, removing, listing."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.tags import RunLabels, Tags
from survey import SettingsError, UnknownName


@dataclass(frozen=True, slots=True)
class LabelChange:
    """What is changed of the labels and tags of some runs."""

    #: Tags to set.
    tags: Tags = field(default_factory=dict)
    #: Names of tags to take away.
    remove: Collection[str] = ()
    #: The label of their weights; empty to take every label away.
    label: str | None = None

    def __bool__(self) -> bool:
        return bool(self.tags or self.remove or self.label is not None)


def change_labels(home: Home, run_ids: Sequence[str], change: LabelChange) -> None:
    """Change the labels and tags of runs; nothing is measured again for it.

    Raises
    ------
    SettingsError
        If a tag is both set and taken away.
    UnknownName
        If none of the runs has a tag that is to be taken away.
    """
    if both := sorted({*change.tags} & {*change.remove}):
        raise SettingsError(f"the tag {both[0]} is both set and removed", hint="leave one out")
    with Registry(home) as registry:
        given = registry.labels.all()
        known = {name for run_id in run_ids if run_id in given for name in given[run_id].tags}
        for name in change.remove:
            if name not in known:
                raise UnknownName("tag of these runs", name, known)
        registry.labels.remove_tags(run_ids, change.remove)
        if change.label == "":
            registry.labels.remove_labels(run_ids)
        labels = RunLabels(checkpoint=change.label or None, tags=change.tags)
        registry.labels.set(dict.fromkeys(run_ids, labels))


def label_rows(home: Home, run_ids: Collection[str] | None = None) -> list[dict[str, Any]]:
    """Return the jobs of these runs, by default of all, with their labels and tags.

    Returns
    -------
    list of dict
        ``run_id``, ``architecture``, ``checkpoint``, ``dataset``, ``label`` and ``tags``, a dict.
    """
    with Registry(home) as registry:
        given, jobs = registry.labels.all(), registry.jobs()
    chosen = [job for job in jobs if run_ids is None or job.run_id in run_ids]
    return [
        {
            "run_id": job.run_id,
            "architecture": f"{job.source}:{job.architecture}",
            "checkpoint": job.checkpoint,
            "dataset": job.dataset,
            "label": labels.label,
            "tags": dict(labels.tags),
        }
        for job in chosen
        for labels in (given.get(job.run_id, RunLabels()),)
    ]
