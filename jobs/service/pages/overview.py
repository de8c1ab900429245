"""The overview: what a home holds, what happened to it last, and what came in last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.data.provenance import banner
from analysis.report.elements import Link, Page
from analysis.report.pages import missing_section, survey_facts, survey_lead
from analysis.report.sections import section
from analysis.text import whole
from catalog.open_home import open_home
from catalog.registry.registry import Registry
from catalog.registry.rows import EventRow
from jobs.service.pages import site
from jobs.service.pages.asked import Asked
from jobs.service.pages.material import ServiceMaterial
from survey.errors import SettingsError
from survey.settings import MEASURING_VERSION

#: Events that the overview lists.
EVENTS_SHOWN = 10


def overview(material: ServiceMaterial, asked: Asked) -> Page:
    """Return the overview, or a welcome to a home that holds nothing."""
    if not asked.selection.filters and not _measured(material):
        return Page(site.OVERVIEW, "welcome.html", {})
    timeline = section(material, "timeline")
    values = {
        "banner": banner(material.provenance.mixed),
        "lead": survey_lead(material),
        "facts": _facts(material),
        "events": _events(asked.home),
        "timeline": timeline,
        "latest": _latest(material),
        "missing": missing_section(material),
    }
    return Page(site.OVERVIEW, "overview.html", values, timeline.exhibits)


def _facts(material: ServiceMaterial) -> dict[str, str]:
    done = material.done
    counts = (
        ("measured", len(done)),
        ("failed", len(material.failed)),
        # Of weights and datasets that changed only a plan knows, which reads their files.
        ("stale (older measuring version)", (done["measuring_version"] != MEASURING_VERSION).sum()),
    )
    facts = {name: whole(count) for name, count in counts} | survey_facts(material)
    # The report's words for the second count.
    del facts["failed runs"]
    return facts


def _events(home: Path) -> list[EventRow]:
    with Registry(open_home(home, create=False)) as registry:
        return registry.events.latest(EVENTS_SHOWN)


def _measured(material: ServiceMaterial) -> bool:
    try:
        return len(material.models) > 0
    except SettingsError:
        # No home, or no run.
        return False


def _latest(material: ServiceMaterial) -> Sequence[tuple[Link, Any]]:
    """Return the runs that finished last, with when."""
    named = material.models[["run_id", "model", "finished_at"]]
    done = named.dropna(subset="finished_at").sort_values("finished_at").tail(10)
    rows = zip(done["run_id"], done["model"], done["finished_at"], strict=True)
    return [(Link(model, material.pages[run]), moment) for run, model, moment in rows][::-1]
