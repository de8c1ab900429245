"""Drift: the signatures that moved since an earlier run."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from analysis.answers.base import Answer
from analysis.answers.columns import TableColumn
from analysis.choices import DRIFT_LEVEL, DRIFT_TOLERANCE
from analysis.option_fields import option
from analysis.text import probability
from survey.errors import SettingsError

if TYPE_CHECKING:
    import pandas as pd

    from analysis.contrasts.drift_verdicts import Drift

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"([0-9]{1,6})([mhdw])")


@dataclass(frozen=True, eq=False)
class SignatureDrift(Answer):
    """Compare signatures with their predecessors.

    Every site is tested against its own batch-to-batch error, with Holm's correction over all. The
    exit code is 1 if any moved.
    """

    name = command = figure = "drift"
    columns = (
        *("verdict", "architecture", "checkpoint", "dataset", "before", "after", "site"),
        *("site_name", "affinity_before", "affinity_after", "difference", "standard_error"),
        TableColumn("p_corrected", "", probability, "Holm's correction over all sites", "p"),
        *("q", TableColumn("flags", optional=True), "detail"),
    )
    unit = "the batch of images, of one site"
    computed_by = "analysis.contrasts.drift_between_runs:drift"
    found_by = "analysis.contrasts.drift_verdicts:Drift.finding"
    untrained = True
    apart = ("images_per_score", "ridge", "shrinkage", "pooling", "dataset")
    without = ("role", "all_runs")

    since: str | None = option(
        None,
        "Date, time or duration, such as 2026-05-01, 7d or 12h: runs that finished since then are"
        " compared.",
        metavar="DATE|DURATION",
        none="the newest runs",
    )
    pair: tuple[str, str] | None = option(
        None,
        "The two runs to compare, the earlier first.",
        metavar="RUN RUN",
        none="each run and its predecessor",
    )
    any_order: bool = option(
        False, "Runs of other orders of the dataset are predecessors too.", flags=("--any-order",)
    )
    tolerance: float = option(DRIFT_TOLERANCE, "Smallest difference of means that is a move.")
    level: float = option(DRIFT_LEVEL, "Chance of any false alarm, over all sites.")
    all_rows: bool = option(False, "Unchanged sites too.", flags=("--all",))

    @property
    def inputs(self) -> Sequence[Any]:
        """The home."""
        return (self.material.home,)

    @property
    def options(self) -> dict[str, Any]:
        """The options, with a duration as the moment before now, and the selection."""
        selection = self.material.selection
        chosen = self.since is not None or self.any_order or selection.filters
        if self.pair is not None and chosen:
            raise SettingsError(
                "--pair excludes --since, --any-order and the options that select runs",
                hint="it names the two runs that are compared",
            )
        since = None if self.since is None else moment(self.since, datetime.now(UTC))
        return super().options | {"since": since, "selection": selection}

    @property
    def rows(self) -> pd.DataFrame:
        """The sites that moved and the runs that appeared or vanished; or all rows."""
        drift: Drift = self.statistics
        return drift.rows if self.all_rows else drift.news

    @property
    def known(self) -> bool:
        """Whether any run has a predecessor."""
        return bool(self.statistics.pairs)

    @property
    def alarm(self) -> bool:
        """Whether anything moved."""
        return bool(self.statistics.moved)

    def details(self) -> Sequence[str]:
        """Return what was tested, the smallest move that is detected, and the verdicts."""
        sentences: Sequence[str] = self.statistics.sentences()
        return sentences


def is_duration(written: str) -> bool:
    """Return whether a moment is given as a duration before now, such as ``7d``."""
    return _DURATION.fullmatch(written) is not None


def moment(written: str, now: datetime) -> datetime:
    """Return the moment given by a date, a time or a duration before now.

    Parameters
    ----------
    written : str
        An ISO date or time, in UTC where it names no zone; or a duration such as ``7d``.
    now : datetime
        The moment that durations are subtracted from.

    Raises
    ------
    SettingsError
        If it is none of them, or lies in the future.
    """
    if match := _DURATION.fullmatch(written):
        try:
            return now - timedelta(**{_UNITS[match[2]]: int(match[1])})
        except OverflowError:
            raise _refused(written, "reaches back before the year 1") from None
    try:
        date = datetime.fromisoformat(written)
    except ValueError:
        raise _refused(written, "is no date, time or duration") from None
    date = date if date.tzinfo else date.replace(tzinfo=UTC)
    if date > now:
        raise _refused(written, "lies in the future")
    return date


def _refused(written: str, why: str) -> SettingsError:
    return SettingsError(
        f"--since {written!r} {why}",
        hint="write 2026-05-01, 2026-05-01T12:00+02:00, or a duration: 30m, 12h, 7d, 2w",
    )
