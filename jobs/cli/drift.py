"""``survey drift``: what moved since it was measured before."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Any

import typer

from jobs.cli.run_filters import Asked, analysing
from survey.errors import SettingsError

#: Exit code when something moved.
MOVED = 1

_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DURATION = re.compile(r"([0-9]{1,6})([mhdw])")

#: What the table shows, and under which heading where a column's own is too wide.
_TABLE = {
    **dict.fromkeys(("verdict", "architecture", "checkpoint", "dataset", "before", "after")),
    "site": None,
    "site_name": None,
    "affinity_before": "was",
    "affinity_after": "is",
    "difference": None,
    "standard_error": "se",
    "p_corrected": "p",
    "detail": None,
}

SinceOption = Annotated[
    str | None,
    typer.Option(
        "--since",
        metavar="DATE|DURATION",
        help="Compare every run that finished since: 2026-05-01, 7d, 12h.  [default: the newest]",
    ),
]
PairOption = Annotated[
    tuple[str, str] | None,
    typer.Option("--pair", metavar="RUN RUN", help="Compare these two alone, the earlier first."),
]


@partial(analysing, without=("role", "all_runs"))
def drift(
    asked: Asked,
    since: SinceOption = None,
    pair: PairOption = None,
    any_order: Annotated[
        bool,
        typer.Option("--any-order", help="Compare runs of other orders of the same dataset too."),
    ] = False,
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="Smallest difference of a mean that matters.")
    ] = 0.001,
    level: Annotated[
        float, typer.Option("--level", help="Chance of any false finding, over all sites.")
    ] = 0.001,
    all_rows: Annotated[
        bool, typer.Option("--all", help="Show sites that stayed as they were too.")
    ] = False,
) -> None:
    """Compare signatures with their predecessors; exit code 1 if any moved.

    Every site is tested against its own batch-to-batch error, with Holm's correction over all.
    """
    from analysis.contrasts.drift import drift

    selection = replace(asked, newest=False).selection()
    if pair is not None and (since is not None or any_order or selection.filters):
        raise SettingsError(
            "--pair excludes --since, --any-order and the options that select runs",
            hint="it names the two runs that are compared",
        )
    found = drift(
        asked.home,
        since=None if since is None else moment(since, datetime.now(UTC)),
        selection=selection,
        pair=pair,
        any_order=any_order,
        tolerance=tolerance,
        level=level,
    )

    def draw() -> Any:
        from analysis import figures

        return figures.drift_chart(found)

    asked.answer(found.rows if all_rows else found.news, _TABLE, [found.summary()], draw)
    if found.moved:
        raise typer.Exit(MOVED)


def moment(written: str, now: datetime) -> datetime:
    """Return the moment that a date, a time or a duration before now means.

    Parameters
    ----------
    written : str
        An ISO date or time, in UTC where it names no zone; or a duration such as ``7d``.
    now : datetime
        What durations are counted back from.

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
        found = datetime.fromisoformat(written)
    except ValueError:
        raise _refused(written, "is no date, time or duration") from None
    found = found if found.tzinfo else found.replace(tzinfo=UTC)
    if found > now:
        raise _refused(written, "lies in the future")
    return found


def _refused(written: str, why: str) -> SettingsError:
    return SettingsError(
        f"--since {written!r} {why}",
        hint="write 2026-05-01, 2026-05-01T12:00+02:00, or a duration: 30m, 12h, 7d, 2w",
    )
