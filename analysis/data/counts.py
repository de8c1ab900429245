"""What frames hold: how many runs, their hash, and how many sites bear each flag."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from survey.few_images import enough_images
from survey.results import FLAGS, left_out_for

#: Digits of the hash of the run ids.
HASH_DIGITS = 12


def counts_of(*frames: pd.DataFrame) -> dict[str, Any]:
    """Return what ``attrs`` say of the number of runs in frames, and of sites by their flags."""
    if len(frames) == 1 and is_whole(frames[0]):
        attrs = frames[0].attrs
        counts = {name: attrs[name] for name in ("runs", "runs_hash") if name in attrs}
    else:
        ids = set().union(*(run_ids(frame) for frame in frames))
        counts = {"runs": len(ids), "runs_hash": runs_hash(ids)} if ids else {}
    return counts | next((each for each in map(flagged, frames) if any(each.values())), {})


def is_whole(frame: pd.DataFrame) -> bool:
    """Return whether a frame has as many ``rows`` as its ``attrs`` were counted of.

    To count those of thousands of runs again takes as long as to read them.
    """
    return bool(frame.attrs.get("rows") == len(frame))


def runs_hash(ids: Iterable[str]) -> str:
    """Return the first digits of the sha256 over the sorted run ids, one a line."""
    text = "\n".join(sorted(set(ids)))
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_DIGITS]


def flagged(frame: pd.DataFrame) -> dict[str, Any]:
    """Return how many of a frame's sites bear each flag; without their columns, those carried."""
    known = {"flags", "affinity", "site"} <= set(frame.columns) and "batch" not in frame
    if not known or is_whole(frame):
        counts = {name: dict(frame.attrs.get(name, {})) for name in ("left_out", "marked")}
        return counts | {"enough_images": frame.attrs.get("enough_images")}
    # Many sites have few combinations of flags.
    places, combined = pd.factorize(frame["flags"].to_numpy())
    few = [place for place, flags in enumerate(combined) if "few_images" in flags]
    widest = frame["channels"][np.isin(places, few)].max() if "channels" in frame else None
    has_score = frame["affinity"].notna().to_numpy()

    def by_flag(*, scored: bool) -> dict[str, int]:
        sites = np.bincount(places[has_score == scored], minlength=len(combined)).tolist()
        borne = combined if scored else [left_out_for(flags) for flags in combined]
        alike = list(zip(borne, sites, strict=True))
        return {f: total for f in FLAGS if (total := sum(n for flags, n in alike if f in flags))}

    return {
        "enough_images": None if pd.isna(widest) else enough_images(int(widest)),
        "left_out": by_flag(scored=False),
        "marked": by_flag(scored=True),
    }


def run_ids(frame: pd.DataFrame) -> set[str]:
    """Return the ids of all runs that rows of a frame are about."""
    columns = [name for name in frame.columns if str(name).endswith("run_id")]
    distinct = (pd.Series(frame[name].unique()).dropna() for name in columns)
    return {str(each) for values in distinct for each in values.tolist()}
