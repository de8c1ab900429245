"""Residual against plain: sites after an addition, the others, and plain twins (Fig. 5D)."""

from __future__ import annotations

import altair as alt
import pandas as pd

from analysis.contrasts.residual_networks import (
    post_shortcut,
    residual_contrast,
    residual_finding,
    twins,
    twins_finding,
)
from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure, first_of
from analysis.figures.marks.hollow_marks import few_images, hollow_note, hollowed
from analysis.figures.theme import PALETTE, affinity_across, marked, names_down, text_width
from analysis.text import sentence

#: The kinds of site, with the colour and shape of each.
KINDS = {
    "after the shortcut": (PALETTE[1], "triangle-up"),
    "other site of a residual network": (PALETTE[0], "circle"),
    "plain twin": (PALETTE[6], "square"),
}

#: Width of the strips, and height of one, in pixels.
WIDTH, STRIP = 420, 26

#: Area of a mark, in square pixels.
MARK = 32

#: Most strips.
MOST = 100


def residual_rows(signatures: pd.DataFrame) -> pd.DataFrame:
    """Return the main sites with a score of residual networks and of their plain twins.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of ``analysis.signatures``.

    Returns
    -------
    pandas.DataFrame
        ``model``, ``label`` (with n), ``kind`` (one of ``KINDS``), ``affinity``, ``few_images``
        (whether the site has that flag); each residual network before its twin.
    """
    require_columns(signatures, ("run_id", "site", "role", "repeat", "affinity"))
    sites = signatures.assign(after=post_shortcut(signatures))
    sites = sites[(sites["role"] == "main") & sites["affinity"].notna()]
    residual = list(dict.fromkeys(sites.loc[sites["after"], "model"]))
    pairs = twins(signatures).query("level == 'pair'")
    twin = dict(zip(pairs["residual"], pairs["plain"], strict=True))
    shown = [name for one in residual for name in (one, twin.get(one)) if name is not None]
    after, other, plain = KINDS
    sites["kind"] = sites["after"].map({True: after, False: other})
    sites.loc[sites["model"].isin(set(twin.values()) - set(residual)), "kind"] = plain
    counts = sites.groupby("model")["affinity"].transform("size")
    sites["label"] = sites["model"] + " (n = " + counts.astype("str") + ")"
    places = {name: place for place, name in enumerate(dict.fromkeys(shown))}
    kept = sites[sites["model"].isin(places)]
    ordered = kept.sort_values("model", key=lambda names: names.map(places), kind="stable")
    ordered["few_images"] = few_images(ordered)
    return ordered[["model", "label", "kind", "affinity", "few_images"]].reset_index(drop=True)


def residual_chart(signatures: pd.DataFrame, *, untrained: bool = False) -> Figure:
    """Draw sites after an addition apart from the others, and plain twins beside them.

    Of more than 100 networks the first are drawn, in the order of the rows.

    Parameters
    ----------
    signatures : pandas.DataFrame
        As for ``residual_rows``.
    untrained : bool
        Whether random weights (``init:...``) count in the sentences.
    """
    rows = residual_rows(signatures)
    labels = list(dict.fromkeys(rows["label"]))
    plain = set(rows.loc[rows["kind"] == list(KINDS)[-1], "label"])
    # No network without its twin.
    most = MOST - (not plain.isdisjoint(labels[MOST : MOST + 1]))
    order, left_out = first_of(labels, most, "the first")
    rows = rows[rows["label"].isin(order)]
    lanes = (rows["kind"] == next(iter(KINDS))).map({True: "after", False: "rest"})
    base = alt.Chart(rows.assign(lane=lanes)).encode(
        x=affinity_across(rows["affinity"]),
        y=names_down("label", order, grid=True),
        yOffset=alt.YOffset("lane:N", scale=alt.Scale(domain=["after", "rest"])),
    )
    looks = marked("kind", KINDS)
    points = base.mark_point(filled=True, opacity=0.75, size=MARK).encode(**looks)
    return figure(
        alt.layer(points, *hollowed(base, rows, MARK, looks["shape"])).properties(
            width=WIDTH, height=STRIP * max(len(order), 1)
        ),
        residual_finding(residual_contrast(signatures, untrained=untrained)),
        note=sentence(twins_finding(twins(signatures, untrained=untrained)))
        + hollow_note(rows)
        + left_out,
        source=signatures,
        width=int(max(WIDTH + text_width(order), 560)),
    )
