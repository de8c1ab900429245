"""Drift: the difference of each site's affinity from that of an earlier run."""

from __future__ import annotations

import altair as alt
import pandas as pd

from analysis.contrasts.drift_verdicts import Drift
from analysis.data.validation import require_kind
from analysis.figures.figure import Figure, figure
from analysis.figures.marks.hollow_marks import few_images, hollow_note, hollowed
from analysis.figures.theme import CONTRAST, FAINT, QUIET, UNIT, marked

#: Width and height of the drawing, in pixels.
WIDTH, HEIGHT = 420, 280

#: Area of a mark, in square pixels.
MARK = 48

#: The labels of a site's mark.
MOVED, STAYED = "moved", "stayed"


def drift_rows(drift: Drift) -> pd.DataFrame:
    """Return the sites that were compared, one row each.

    Parameters
    ----------
    drift : Drift
        From ``analysis.contrasts.drift_between_runs.drift``.

    Returns
    -------
    pandas.DataFrame
        The columns of ``Drift.rows``, with ``mark`` (moved or stayed) and ``few_images`` (whether
        the site has that flag); ``low`` and ``high``, a 95 %
        interval by Student's t, are the difference itself where there is no error. Runs without a
        site to compare have no row.
    """
    require_kind(drift, Drift, "drift(home)")
    rows = drift.rows[drift.rows["difference"].notna()].copy()
    rows["mark"] = rows["verdict"].eq(MOVED).map({True: MOVED, False: STAYED})
    rows["few_images"] = few_images(rows)
    for end in ("low", "high"):
        rows[end] = rows[end].fillna(rows["difference"])
    # What moved is drawn last, on top.
    return rows.sort_values("mark", ascending=False, kind="stable", ignore_index=True)


def drift_chart(drift: Drift) -> Figure:
    """Draw each site's difference over the affinity it had before.

    Its parameters are those of ``drift_rows``.
    """
    rows = drift_rows(drift)
    farthest = float(rows[["low", "high"]].abs().max().max()) if len(rows) else 0.0
    reach = 1.1 * max(farthest, 2 * drift.tolerance)
    scale = alt.Scale(domain=[-reach, reach], nice=False)
    before = alt.X("affinity_before:Q", title="affinity score before", scale=UNIT)
    band = pd.DataFrame({"low": [-drift.tolerance], "high": [drift.tolerance]})
    tolerated = (
        alt.Chart(band)
        .mark_rect(color=FAINT, opacity=0.5)
        .encode(y=alt.Y("low:Q", scale=scale, title="difference, after less before"), y2="high:Q")
    )
    base = alt.Chart(rows).encode(x=before)
    bars = base.mark_rule(color=QUIET).encode(y=alt.Y("low:Q", scale=scale), y2="high:Q")
    places = base.encode(y=alt.Y("difference:Q", scale=scale))
    looks = marked("mark", {MOVED: (CONTRAST, "square"), STAYED: (QUIET, "circle")})
    points = places.mark_point(filled=True, opacity=1, size=MARK).encode(
        **looks,
        tooltip=["architecture:N", "checkpoint:N", "dataset:N", "site_name:N", "difference:Q"],
    )
    return figure(
        alt.layer(
            tolerated, bars, points, *hollowed(places, rows, MARK, looks["shape"])
        ).properties(width=WIDTH, height=HEIGHT),
        drift.finding(),
        note=f"Grey: the tolerance of {drift.tolerance:g}; bars: 95 % intervals (Student's t)."
        f" Tested at a family-wise level of {drift.level:g} (Holm)."
        + hollow_note(rows, "difference"),
        source=drift.rows,
        width=WIDTH + 70,
    )
