"""Signatures over depth: a panel a family (one line a model), or a panel a model (Figs. 10 to 13).

References
----------
Bouniot et al. 2025, arXiv:2310.11439, Appendix F.
"""

from __future__ import annotations

from typing import Any

import altair as alt
import pandas as pd

from analysis.data.provenance import narrowed
from analysis.data.validation import require_columns
from analysis.figures.figure import Figure, figure, head
from analysis.figures.marks.depth_axis import (
    SMALL,
    depth_choice,
    depths,
    over_depth,
    thread,
)
from analysis.figures.marks.hollow_marks import hollow_note
from analysis.figures.marks.model_colours import FAMILIES, ModelColours
from analysis.figures.marks.representative_models import SAMPLED, sample
from analysis.figures.theme import UNKNOWN, colour_scale, legend, lines_by, shape_scale, with_mark
from analysis.relations.network_depth import NETWORK, depth_finding
from analysis.text import listed, number, range_finding, span
from catalog.checkpoint_files import natural_order
from survey.errors import UnknownName
from survey.text import counted

#: Panels side by side, and the size of each in pixels.
COLUMNS, WIDTH, HEIGHT = 3, 250, 170


def signature_lines(signatures: pd.DataFrame, most: int | None = None) -> pd.DataFrame:
    """Return the lines of a figure of families: affinity over depth, one line a run.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of the view ``signatures``.
    most : int, optional
        Of more runs with scores than this, the sample
        (``analysis.figures.marks.representative_models``) of so many.

    Returns
    -------
    pandas.DataFrame
        ``run_id``, ``family``, ``model``, ``site``, ``depth`` (the relative one, in [0, 1], 0 the
        first site), ``graph_depth``, ``affinity`` (NaN where there is no score), ``few_images``
        (whether the site has that flag).
    """
    lines = depths(signatures)
    lines["family"] = lines["family"].fillna(UNKNOWN)
    lines["depth"] = lines["relative_depth"]
    names = ["run_id", "family", "model", "site", "depth", "relative_depth", "graph_depth"]
    return _shown(lines[[*names, "affinity", "few_images"]], most)


def signature_chart(
    signatures: pd.DataFrame, most: int | None = None, colours: ModelColours = FAMILIES
) -> Figure:
    """Draw signatures, one panel a family and one line a model, the most linear family first.

    The finding, the order of the families and their numbers are those of all models.

    Parameters
    ----------
    signatures, most
        See ``signature_lines``.
    colours : ModelColours
        What colour and dash stand for; as panels tell families apart, by default the model.
    """
    lines = signature_lines(signatures)
    lines["colour"] = colours.of(lines)
    medians = lines.groupby("family")["affinity"].median().sort_values(ascending=False)
    models = lines.groupby("family")["model"].nunique()
    named = [each for each in ("family", "source", "architecture") if each in signatures]
    networks = signatures[named].drop_duplicates()["family"].value_counts()
    shown = _shown(lines, most)
    drawn = [name for name in medians.index if (shown["family"] == name).any()]
    looks = None if colours == FAMILIES else colours.lines(shown, _width(len(drawn)))
    panels = [
        _family_panel(shown[shown["family"] == name], name, models[name], looks) for name in drawn
    ]
    scales: Any = "independent" if looks is None else "shared"
    resolved = alt.ScaleResolveMap(color=scales, strokeDash=scales)
    return figure(
        alt.concat(*panels, columns=COLUMNS, resolve=alt.Resolve(scale=resolved)),
        _family_finding(lines, medians, networks),
        note="One line a model, a gap where a site has no score. 1 is affine."
        + hollow_note(shown)
        + _sampled(shown, lines),
        source=signatures,
        width=_width(len(panels)),
        params=[depth_choice(shown)],
    )


def model_rows(signatures: pd.DataFrame) -> pd.DataFrame:
    """Return the sites of a figure of models, with the columns of their colours and shapes.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of the view ``signatures``.

    Returns
    -------
    pandas.DataFrame
        ``run_id``, ``model``, ``site``, ``site_name``, ``relative_depth``, ``graph_depth``,
        ``activation`` (with ``(gate)`` where the output only scales another value), ``repeat``
        (the place in the block, as text), ``affinity`` (NaN where there is no score),
        ``affinity_std``, ``few_images`` (whether the site has that flag).
    """
    rows = depths(signatures)
    gates = rows["role"].eq("gate").map({True: " (gate)", False: ""})
    rows["activation"] = rows["activation"].fillna(UNKNOWN) + gates
    rows["repeat"] = rows["repeat"].astype("Int64").astype("str").replace("<NA>", UNKNOWN)
    names = ["run_id", "model", "site", "site_name", "relative_depth", "graph_depth"]
    return rows[[*names, "activation", "repeat", "affinity", "affinity_std", "few_images"]]


def model_chart(signatures: pd.DataFrame) -> Figure:
    """Draw signatures, one panel a model, coloured by activation and shaped by repeat position.

    Its parameters are those of ``model_rows``.
    """
    rows = model_rows(signatures)
    return _models(rows, _model_finding(rows), signatures)


def depth_chart(signatures: pd.DataFrame, family: str) -> Figure:
    """Draw the models of a family, the shallowest first (Figs. 12 and 13); see ``model_chart``.

    Parameters
    ----------
    signatures : pandas.DataFrame
        Rows of the view ``signatures``.
    family : str
        Whose models.

    Raises
    ------
    UnknownName
        If no model is of this family.
    """
    require_columns(signatures, (*NETWORK, "site", "affinity"))
    known = [str(each) for each in signatures["family"].dropna().unique()]
    if family not in known:
        raise UnknownName("family", family, known)
    group = narrowed(signatures[signatures["family"] == family], f"family {family}")
    sites = group.groupby("run_id")["site"].transform("size")
    ordered = group.assign(sites=sites).sort_values(["sites", "run_id", "site"], kind="stable")
    by_network = ordered.groupby([*NETWORK, "sites"], sort=False, as_index=False)
    networks = by_network.agg(median=("affinity", "median"))
    rows = model_rows(ordered)
    return _models(rows, depth_finding(networks), group)


def _models(rows: pd.DataFrame, finding: str, source: pd.DataFrame) -> Figure:
    names = list(dict.fromkeys(rows["run_id"]))
    alone = len(names) == 1
    size = (560, 260) if alone else (WIDTH, 130)
    panels = [_model_panel(rows, run_id, size) for run_id in names]
    return figure(
        panels[0] if alone else alt.concat(*panels, columns=COLUMNS),
        finding,
        note="std: deviation of a site's batch scores, the mean over sites."
        + (" Dotted lines: sites without a score." if rows["affinity"].isna().any() else "")
        + hollow_note(rows),
        source=source,
        width=620 if alone else _width(len(panels)),
        params=[depth_choice(rows)],
    )


def _shown(lines: pd.DataFrame, most: int | None) -> pd.DataFrame:
    scored = lines.loc[lines["affinity"].notna(), "run_id"].nunique()
    if most is None or scored <= most:
        return lines
    return lines[lines["run_id"].isin(sample(lines, most))]


def _sampled(shown: pd.DataFrame, lines: pd.DataFrame) -> str:
    if len(shown) == len(lines):
        return ""
    few, all_of_them = (each["run_id"].nunique() for each in (shown, lines))
    return f" {few:,} of {counted(all_of_them, 'model')} shown: {SAMPLED}."


def _family_panel(
    lines: pd.DataFrame, family: str, models: int, looks: dict[str, Any] | None
) -> Any:
    # What all lines have before their checkpoints stands once, above them.
    networks = lines["model"].str.partition("@")
    alike = networks[0].nunique() == 1 and lines["model"].nunique() > 1 and networks[1].all()
    network = f", {networks[0].iloc[0]}" if alike else ""
    lines = lines.assign(model=networks[2]) if alike else lines
    names = sorted(lines["model"].unique(), key=natural_order)
    looks = looks or lines_by("model", names, WIDTH + 30)

    def strokes(base: Any) -> Any:
        return base.mark_line(strokeWidth=1.4 if len(names) < 7 else 1.0).encode(
            order="site:Q", detail="run_id:N", **looks
        )

    def points(base: Any) -> Any:
        # A site between two gaps has no line; a point shows it.
        size = SMALL if lines["few_images"].any() else 9
        return base.mark_circle(size=size, opacity=1).encode(color=looks["color"])

    drawn = over_depth(lines, strokes, points, width=WIDTH, height=HEIGHT)
    some = "" if len(names) == models else f", {len(names)} shown"
    drawn.title = head(f"{family}{network} (n = {models:,}{some})", limit=WIDTH + 40)
    return drawn


def _family_finding(
    lines: pd.DataFrame, medians: pd.Series[float], networks: pd.Series[int]
) -> str:
    scored = lines[lines["affinity"].notna()]
    sites = f"{counted(scored['run_id'].nunique(), 'model')}, {counted(len(scored), 'site')}"
    if scored.empty:
        return "No site has a score"
    # One network says nothing of its family, and those of unknown family are none.
    families = medians.drop(UNKNOWN, errors="ignore")
    known = families[families.notna() & (networks.reindex(families.index) > 1)]
    if len(known) < 2:
        models = scored.groupby("model")["affinity"].median().sort_values()
        alone = known if len(medians) == len(known) else models
        if len(alone) == 1:
            return f"{alone.index[0]}: median affinity {number(alone.iloc[0])} ({sites})"
        return range_finding("Median affinity goes", models, sites)
    high, low = known.index[0], known.index[-1]
    ends = number(known.iloc[0]), number(known.iloc[-1])
    if ends[0] == ends[1]:
        return f"All {len(known)} families are equally affine: median {ends[0]} ({sites})"
    single = len(families) - len(known)
    fewer = f"; {counted(single, 'family', 'families')} by one network apart" if single else ""
    return (
        f"{high} is the most affine family and {low} the least: median {ends[0]} against {ends[1]}"
        f" ({sites}{fewer})"
    )


def _model_panel(rows: pd.DataFrame, run_id: str, size: tuple[int, int]) -> Any:
    group = rows[rows["run_id"] == run_id]
    activations = sorted(rows["activation"].unique())
    places = sorted(rows["repeat"].unique(), key=lambda name: (len(name), name))
    # Where all activations are of one kind, colour helps to tell places in the block apart.
    coloured, names = ("repeat", places) if len(activations) == 1 else ("activation", activations)
    title = "place in block" if coloured == "repeat" else "activation"
    kinds = legend(title=title, columns=5) if len(names) > 1 else None
    shapes = legend(title="place in block", columns=5) if len(places) > 1 else None
    shape = alt.Shape("repeat:N", scale=shape_scale(places), legend=shapes)

    # As objects: for the channel of a text Altair searches all of its classes, each time.
    shown = ("model:N", "site_name:N", "activation:N", "repeat:N", "affinity:Q")
    named = [alt.Tooltip(each) for each in shown]

    # Smaller where sites lie close together.
    point = min(46, max(9, round(6 * size[0] / max(len(group), 1))))

    def points(base: Any) -> Any:
        return with_mark(base, "point", filled=True, opacity=1, size=point).encode(
            color=alt.Color(f"{coloured}:N", scale=colour_scale(names), legend=kinds),
            shape=shape,
            tooltip=named,
        )

    drawn = over_depth(
        group, thread, points, width=size[0], height=size[1], size=point, shape=shape
    )
    if rows["run_id"].nunique() > 1:
        drawn.title = head(str(group["model"].iloc[0]), _summary(group), limit=size[0])
    return drawn


def _summary(group: pd.DataFrame) -> str:
    """Return the activations, the mean deviation and the number of sites."""
    activations = listed(sorted(group["activation"].unique()), 3)
    missing = int(group["affinity"].isna().sum())
    sites = f"{len(group) - missing}" + (f", {missing} missing" if missing else "")
    return f"{activations}, std {number(group['affinity_std'].mean(), 3)}, n = {sites}"


def _model_finding(rows: pd.DataFrame) -> str:
    medians = rows.groupby("model")["affinity"].median().dropna().sort_values()
    if medians.empty:
        return f"{listed(rows['model'].unique())}: no site has a score"
    if rows["run_id"].nunique() == 1:
        scores = rows["affinity"].dropna()
        return (
            f"{medians.index[0]}: affinity {span(scores.min(), scores.max())},"
            f" median {number(scores.median())} ({_summary(rows)})"
        )
    return range_finding("Median affinity goes", medians, counted(len(medians), "model"))


def _width(panels: int) -> int:
    return min(panels, COLUMNS) * (WIDTH + 55)
