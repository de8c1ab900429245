"""Provenance: what a frame or a figure was made from, in a line that leads back to the runs.

Owns the caption's facts. A frame carries them in ``attrs``, as plain words and numbers.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass

import pandas as pd

from analysis.data.comparability import CONDITIONS, conditions
from survey import __version__

#: What frames carry in ``attrs``.
CARRIED = ("selection", "home", "measuring_versions", "conditions", "runs", "runs_hash")

#: What of it counts all runs, and so is not that of a part of them.
_COUNTS = ("runs", "runs_hash")

#: Digits of the hash of the run ids.
HASH_DIGITS = 12


@dataclass(frozen=True, slots=True)
class Provenance:
    """What numbers were made from."""

    #: Which runs, in words.
    selection: str
    #: How many runs.
    runs: int
    #: The first digits of the sha256 of the sorted run ids, one a line.
    runs_hash: str
    #: The version of the program that made the numbers out of them.
    survey_version: str
    #: The versions of the measuring that measured them, ascending; empty where nobody knows.
    measuring_versions: tuple[int, ...]
    #: Each way in which they were measured, as ``analysis.data.comparability`` says it.
    conditions: tuple[str, ...] = ()

    def caption(self) -> str:
        """Return all of it in a line."""
        noun = "run" if self.runs == 1 else "runs"
        measured = " and ".join(map(str, self.measuring_versions))
        parts = [self.selection, f"{self.runs} {noun} (ids hash to {self.runs_hash})"]
        if self.conditions:
            parts.append(" or ".join(self.conditions))
        if measured:
            parts.append(f"measuring version {measured}")
        return "; ".join((*parts, f"survey {self.survey_version}"))


def provenance_of(frame: pd.DataFrame) -> Provenance:
    """Return what a frame was made from.

    Parameters
    ----------
    frame : pandas.DataFrame
        A frame of ``analysis.data.frames``, however filtered since: its runs are counted from
        ``run_id``. Or a result that ``carried`` them.

    Returns
    -------
    Provenance
        For a frame that nobody labelled, the selection is said to be that of the caller.
    """
    attrs = frame.attrs
    ids = _run_ids(frame)
    return Provenance(
        selection=str(attrs.get("selection") or "runs as given"),
        runs=int(attrs.get("runs", len(ids))),
        runs_hash=str(attrs.get("runs_hash") or runs_hash(ids)),
        survey_version=__version__,
        measuring_versions=tuple(attrs.get("measuring_versions", ())),
        conditions=tuple(_conditions(frame)),
    )


def carried(result: pd.DataFrame, *frames: pd.DataFrame) -> pd.DataFrame:
    """Write into a result what the frames it was made from were made from.

    Parameters
    ----------
    result : pandas.DataFrame
        Anything made from the frames; it is changed and returned.
    frames : pandas.DataFrame
        Frames with ``run_id``, or results that carry it; the first one's words are taken.

    Returns
    -------
    pandas.DataFrame
        The result, with ``CARRIED`` in ``attrs``.
    """
    ids = set().union(*(_run_ids(frame) for frame in frames))
    for frame in reversed(frames):
        result.attrs |= {name: frame.attrs[name] for name in CARRIED if name in frame.attrs}
    if ids:
        result.attrs |= {"runs": len(ids), "runs_hash": runs_hash(ids)}
    result.attrs["conditions"] = sorted({way for frame in frames for way in _conditions(frame)})
    return result


def narrowed(frame: pd.DataFrame, words: str) -> pd.DataFrame:
    """Return a frame whose words say that it holds only some of what was selected.

    Parameters
    ----------
    frame : pandas.DataFrame
        What is left of a frame of ``analysis.data.frames``.
    words : str
        Which part of it, such as ``family VGG``.
    """
    found = frame.copy(deep=False)
    said = frame.attrs.get("selection")
    found.attrs = {name: each for name, each in frame.attrs.items() if name not in _COUNTS}
    found.attrs["selection"] = f"{said}, {words}" if said else words
    return found


def runs_hash(run_ids: Iterable[str]) -> str:
    """Return the first digits of the sha256 over the sorted run ids, one a line."""
    text = "\n".join(sorted(set(run_ids)))
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def _conditions(frame: pd.DataFrame) -> list[str]:
    """Return the ways in which what is left of a frame was measured, or what it carries."""
    if set(CONDITIONS) <= set(frame.columns):
        met = frame[list(CONDITIONS)].drop_duplicates().itertuples(index=False, name=None)
        return conditions(dict(zip(CONDITIONS, row, strict=True)) for row in met)
    return list(frame.attrs.get("conditions", ()))


def _run_ids(frame: pd.DataFrame) -> set[str]:
    columns = [name for name in frame.columns if str(name).endswith("run_id")]
    return {str(each) for name in columns for each in frame[name].dropna().unique()}
