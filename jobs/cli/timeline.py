"""``survey timeline``: the range of signatures by the year of the architecture (Fig. 3)."""

from __future__ import annotations

from typing import Any

from jobs.cli.run_filters import Asked, analysing
from survey.text import counted


@analysing
def timeline(asked: Asked) -> None:
    """Say each model's lowest, median and highest affinity, oldest architectures first."""
    from analysis.relations.timeline import timeline

    signatures = asked.signatures()
    table = timeline(signatures)
    years = table["year"].dropna()
    first, last = (years.min(), years.max()) if len(years) else ("unknown year",) * 2
    span = f"of {first} to {last}" if first != last else f"of {first}"
    unknown = len(table) - len(years)
    rest = f", {unknown} of unknown year" if unknown and len(years) else ""

    def draw() -> Any:
        from analysis import figures

        return figures.timeline_chart(table)

    dated = counted(len(years) or len(table), "model")
    asked.answer(table, None, [f"{dated} {span}{rest}"], draw)
