"""Which measures of its whole network a run lacks, and which are refused before it is measured."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from catalog.isolated_widths import isolated_costs
from catalog.models.cost_table import CountedCost, counted
from catalog.models.memory import MemorySource
from jobs.planning.job import Job
from survey import SettingsError
from survey.network_measures import MEASURES
from survey.network_measures.base import SampledMeasure


def missing_measures(wanted: Collection[str], stored: Mapping[str, int | None]) -> tuple[str, ...]:
    """Return the measures that are wanted and of which not every quantity is stored as it is now.

    Parameters
    ----------
    wanted : collection of str
        Names of measures.
    stored : mapping of str to int or None
        Quantities that are stored, with a value or a reason, and the measure's version then.
    """
    return tuple(
        measure.name
        for measure in MEASURES
        if measure.name in wanted
        and any(stored.get(each.name) != measure.version for each in measure.quantities)
    )


def costs_to_foresee_by(
    wanted: Collection[str], full_names: Iterable[str]
) -> Mapping[str, CountedCost]:
    """Return what networks cost that no table lists, if a measure takes many passes of images.

    Parameters
    ----------
    wanted : collection of str
        Names of measures.
    full_names : iterable of str
        The architectures' full names. What no table lists is run once in another process.
    """
    if not any(isinstance(each, SampledMeasure) for each in MEASURES if each.name in wanted):
        return {}
    # Another process does not have the networks that are in memory here.
    here = f"{MemorySource.name}:"
    unlisted = {name: None for name in full_names if counted(*name.split(":", 1)) is None}
    return isolated_costs(tuple(name for name in unlisted if not name.startswith(here)))


def require_feasible(job: Job) -> None:
    """Refuse a job with a measure that would not be done in time on images of its size.

    Raises
    ------
    SettingsError
        With what to ask for instead.
    """
    for measure in MEASURES:
        if not isinstance(measure, SampledMeasure) or measure.name not in job.measures:
            continue
        if reason := measure.refusal(job.transform.size):
            instead = measure.alternative
            raise SettingsError(
                f"{job.title}: {reason}",
                hint=f"ask for {instead} instead (--measures {instead})"
                if instead
                else f"ask for {measure.name} of networks with smaller images alone",
            )
