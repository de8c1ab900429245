"""Provenance of frames and figures: the selection, runs, conditions and versions behind them.

A frame carries it in ``attrs``, as text and numbers; ``Provenance`` writes it as a caption.
*Conditions* are the measurement settings that must be equal for two runs' scores to compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import pandas as pd

from analysis.data.counts import counts_of, flagged, is_whole, run_ids, runs_hash
from analysis.data.short_names import short_names
from analysis.text import as_given, listed
from survey import __version__
from survey.results import flag_sentences
from survey.text import counted

#: Columns of ``runs``: how many images a score is made of, and how its covariances are estimated.
#: The pooling is not among them: it is part of what was measured.
CONDITIONS = ("images_per_score", "shrinkage", "ridge")

#: Settings of which one answer should hold one value each; those that scores depend on, and what
#: was measured on.
COMPARED = ("images_per_score", "ridge", "shrinkage", "pooling", "dataset")

#: Columns of signatures that it is counted from, however they are filtered.
COUNTED = ("run_id", "site", "affinity", "flags", "channels", *CONDITIONS, "pooling", "dataset")

#: Values that a description leaves out. The ridge is always named: its default has changed.
_USUAL = {"shrinkage": "ledoit-wolf"}

#: The keys of ``attrs``.
CARRIED = (
    *("selection", "home", "measuring_versions", "conditions", "mixed", "runs", "runs_hash"),
    *("left_out", "marked", "enough_images"),
    *("untrained_left_out", "untrained_alone"),
)

#: Those that count all runs, and do not hold of a part of them.
_COUNTS = (
    *("rows", "runs", "runs_hash", "left_out", "marked", "enough_images"),
    "untrained_left_out",
)


@dataclass(frozen=True, slots=True)
class Provenance:
    """The provenance of numbers."""

    #: Which runs: ``Selection.describe``, and what narrowed it.
    selection: str
    #: How many runs.
    runs: int
    #: See ``runs_hash``.
    runs_hash: str
    #: The version of the program that made the numbers.
    survey_version: str
    #: The versions of the measuring, ascending; empty where unknown.
    measuring_versions: tuple[int, ...]
    #: Descriptions of the runs' conditions.
    conditions: tuple[str, ...] = ()
    #: The values of each setting of ``COMPARED`` that has several.
    mixed: Mapping[str, Sequence[str]] = field(default_factory=dict)
    #: By flag, how many sites have it and no score that counts, and how many a score that does.
    left_out: Mapping[str, int] = field(default_factory=dict)
    marked: Mapping[str, int] = field(default_factory=dict)
    #: Images a score with which none would bear the flag ``few_images``; None where none does.
    enough_images: int | None = None
    #: Runs of random weights that have no part in it.
    untrained_left_out: int = 0
    #: Whether all of its runs are of random weights.
    untrained_alone: bool = False

    def notes(self) -> list[str]:
        """Return sentences on what is left out, runs and sites by flag, and sites that bear one."""
        runs = counted(self.untrained_left_out, "run")
        untrained = f"{runs} of random weights (init:...) left out; --untrained counts them."
        left_out = [untrained] if self.untrained_left_out else []
        if self.untrained_alone:
            left_out.append("Every run is of random weights (init:...): none speaks of training.")
        left_out += flag_sentences(self.left_out, "left out")
        return left_out + flag_sentences(self.marked, enough=self.enough_images)

    def caption(self) -> str:
        """Return the provenance in one line."""
        measured = " and ".join(map(str, self.measuring_versions))
        parts = [self.selection, f"{counted(self.runs, 'run')} (ids hash to {self.runs_hash})"]
        if self.conditions:
            parts.append(" or ".join(self.conditions))
        for what, by_flag in (("left out", self.left_out), ("marked", self.marked)):
            if by_flag:
                each = ", ".join(f"{number} {flag}" for flag, number in by_flag.items())
                parts.append(f"sites {what}: {each}")
        if measured:
            parts.append(f"measuring version {measured}")
        return "; ".join((*parts, f"survey {self.survey_version}"))


def provenance_of(frame: pd.DataFrame) -> Provenance:
    """Return the provenance of a frame.

    Parameters
    ----------
    frame : pandas.DataFrame
        A frame of ``analysis.data.frames``, however filtered since: its runs are counted from
        ``run_id``. Or a result of ``carried``.

    Returns
    -------
    Provenance
        Its selection is ``runs as given`` where the frame carries none.
    """
    attrs, flags = frame.attrs, flagged(frame)
    ids = set() if {"runs", "runs_hash"} <= attrs.keys() else run_ids(frame)
    return Provenance(
        selection=str(attrs.get("selection") or "runs as given"),
        runs=int(attrs.get("runs", len(ids))),
        runs_hash=str(attrs.get("runs_hash") or runs_hash(ids)),
        survey_version=__version__,
        measuring_versions=tuple(attrs.get("measuring_versions", ())),
        conditions=tuple(_conditions(frame)),
        mixed=_mixed(frame),
        left_out=flags["left_out"],
        marked=flags["marked"],
        enough_images=flags["enough_images"],
        untrained_left_out=int(attrs.get("untrained_left_out", 0)),
        untrained_alone=bool(attrs.get("untrained_alone")),
    )


def provenance_of_run(run: Mapping[str, Any]) -> Provenance:
    """Return the provenance of one run, a row of ``runs``."""
    measured = () if run["measuring_version"] is None else (run["measuring_version"],)
    name, known = run["run_id"], tuple(conditions([run]))
    return Provenance(name, 1, runs_hash([name]), __version__, measured, known)


def conditions(runs: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a description of each combination of conditions among runs; one where all compare.

    Parameters
    ----------
    runs : iterable of mapping
        Rows of ``runs`` with the columns of ``CONDITIONS``.

    Returns
    -------
    list of str
        Such as ``512 images a score, ridge relative``.
    """
    combined = {tuple(run[name] for name in CONDITIONS) for run in runs}
    return sorted({condition(dict(zip(CONDITIONS, each, strict=True))) for each in combined} - {""})


def condition(run: Mapping[str, Any]) -> str:
    """Return a description of a run's conditions; empty where it never started."""
    known = {name: run[name] for name in CONDITIONS if not pd.isna(run[name])}
    if "images_per_score" not in known:
        return ""
    images = int(known.pop("images_per_score"))
    named = [f"{name} {each}" for name, each in known.items() if each != _USUAL.get(name)]
    return ", ".join((f"{images} images a score", *named))


def mixed_settings(runs: pd.DataFrame) -> dict[str, list[str]]:
    """Return the values, as text, of each setting of ``COMPARED`` that has several among runs."""
    known = {
        name: sorted(_written(name, (each for each in runs[name].unique() if not pd.isna(each))))
        for name in COMPARED
        if name in runs
    }
    return {name: each for name, each in known.items() if len(each) > 1}


def banner(mixed: Mapping[str, Sequence[str]], apart: Sequence[str] = ()) -> str | None:
    """Return a warning where scores that do not compare meet in one answer; None where none do.

    Parameters
    ----------
    mixed : mapping of str to sequence of str
        ``Provenance.mixed``.
    apart : sequence of str
        Settings whose values the answer keeps apart.
    """
    several = {name: values for name, values in mixed.items() if name not in apart}
    if not several:
        return None
    values = "; ".join(f"{name} {listed(values)}" for name, values in several.items())
    options = " or ".join(several)
    return f"Mixed settings: {values}. Scores of different ones do not compare: choose by {options}"


def _written(name: str, values: Iterable[Any]) -> set[str]:
    if name == "dataset":
        return set(short_names(values).values())
    return set(map(as_given, values))


def carried(result: pd.DataFrame, *frames: pd.DataFrame) -> pd.DataFrame:
    """Copy the provenance of the input frames to a result.

    Parameters
    ----------
    result : pandas.DataFrame
        Anything made from the frames; it is changed and returned.
    frames : pandas.DataFrame
        Frames with ``run_id``, or results of ``carried``; the first one's selection is taken.

    Returns
    -------
    pandas.DataFrame
        The result, with ``CARRIED`` in ``attrs``.
    """
    for frame in reversed(frames):
        result.attrs |= {name: frame.attrs[name] for name in CARRIED if name in frame.attrs}
    result.attrs |= counts_of(*frames)
    result.attrs["conditions"] = sorted({each for frame in frames for each in _conditions(frame)})
    result.attrs["mixed"] = next(filter(None, map(_mixed, frames)), {})
    return result


def narrowed(frame: pd.DataFrame, part: str) -> pd.DataFrame:
    """Return a frame whose selection is described as a part of what was selected.

    Parameters
    ----------
    frame : pandas.DataFrame
        The rows left of a frame of ``analysis.data.frames``.
    part : str
        Which part of it, such as ``family VGG``.
    """
    narrower = frame.copy(deep=False)
    selection = frame.attrs.get("selection")
    narrower.attrs = {name: each for name, each in frame.attrs.items() if name not in _COUNTS}
    narrower.attrs["selection"] = f"{selection}, {part}" if selection else part
    return narrower


def _conditions(frame: pd.DataFrame) -> list[str]:
    """Return the conditions of a frame's remaining rows; without their columns, those carried."""
    if set(CONDITIONS) <= set(frame.columns) and not is_whole(frame):
        values = [frame[name].unique() for name in CONDITIONS]
        combined: Iterable[tuple[Any, ...]] = product(*values)
        if sum(len(each) > 1 for each in values) > 1:
            # Not all combinations of several values need be there; to look takes longer.
            rows = frame[list(CONDITIONS)].drop_duplicates()
            combined = rows.itertuples(index=False, name=None)
        return conditions(dict(zip(CONDITIONS, row, strict=True)) for row in combined)
    return list(frame.attrs.get("conditions", ()))


def _mixed(frame: pd.DataFrame) -> dict[str, list[str]]:
    """Return the mixed settings of a frame's rows; without their columns, those carried."""
    if set(COMPARED) <= set(frame.columns) and not is_whole(frame):
        return mixed_settings(frame)
    return dict(frame.attrs.get("mixed", {}))
