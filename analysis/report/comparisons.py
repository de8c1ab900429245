"""Pages that compare runs with each other: shortcuts, datasets, checkpoints, training."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd

from analysis.relations.correlation import PAPER_METRICS
from analysis.report.data import Material, sites_sql
from analysis.report.elements import (
    Column,
    Exhibit,
    Section,
    Table,
    fixed,
    percent,
    probability,
    table,
    whole,
)
from analysis.report.svg import answer
from survey.errors import SettingsError

_CURVE = ("run_id", "architecture", "checkpoint", "dataset", "site", "role", "repeat", "affinity")

_REASON = Column("reason", "why something is blank")


def residual(material: Material) -> Section:
    """Return the page of shortcuts: sites after an addition, and residual against plain twins."""
    from analysis.contrasts.residual import residual_contrast, twins
    from analysis.figures.residual import residual_chart, residual_rows

    contrast, pairs = residual_contrast(material.measured), twins(material.measured)
    if contrast.empty and pairs.empty:
        raise SettingsError(
            "no network with shortcuts that activates after the addition was measured"
        )
    chart = residual_chart(material.measured, provenance=material.provenance_of_scored)
    sql = sites_sql(material.scored, _CURVE)
    exhibit = Exhibit("residual", chart, residual_rows(material.measured), sql)
    return answer(exhibit, tables=_residual_tables(material, contrast, pairs))


_SITES_AFTER = (
    Column("dataset", "dataset"),
    Column("after", "sites after", whole, "sites that take the sum of a block and its shortcut"),
    Column("others", "other sites", whole),
    Column("median_after", "median after", fixed(3)),
    Column("median_others", "median of others", fixed(3)),
    Column("difference", "difference of means", fixed(3)),
    Column("cliffs_delta", "Cliff's delta", fixed(2), "1 where all sites after are more affine"),
    Column("low", "from", fixed(2), "lower end of its 95 % interval"),
    Column("high", "to", fixed(2), "upper end of its 95 % interval"),
    Column("p", "p", probability, "Mann and Whitney's test"),
    Column("p_corrected", "p corrected", probability, "Holm's correction"),
    _REASON,
)

_TWINS = (
    Column("checkpoint", "checkpoint"),
    Column("dataset", "dataset"),
    Column("n", "n", whole, "sites of a pair; pairs of all"),
    Column("median_residual", "median residual", fixed(3)),
    Column("median_plain", "median plain", fixed(3)),
    Column("difference", "difference", fixed(3)),
    Column("p", "p", probability),
    _REASON,
)


def _residual_tables(
    material: Material, contrast: pd.DataFrame, pairs: pd.DataFrame
) -> Iterator[Table]:
    links = material.pages_by_model
    if len(contrast):
        caption = "Sites after an addition against the others."
        yield table(
            "after", caption, contrast, (Column("model", "model", links=links), *_SITES_AFTER)
        )
    if len(pairs):
        named = pairs.assign(
            residual=pairs["residual"].where(pairs["level"] == "pair", "all pairs")
        )
        caption = "Residual networks against plain twins, which differ in the shortcuts alone."
        ends = (Column(name, name, links=links) for name in ("residual", "plain"))
        yield table("twins", caption, named, (*ends, *_TWINS))


def datasets(material: Material) -> Section:
    """Return the page of datasets: how far signatures move from one to another."""
    from analysis.contrasts.datasets import dataset_deviations, dataset_summary
    from analysis.figures.datasets import dataset_chart, dataset_rows

    if material.measured["dataset"].nunique() < 2:
        raise SettingsError("all runs with a score saw one dataset")
    found = dataset_deviations(material.measured)
    summary = dataset_summary(found)
    known = summary[summary["dtw"].notna()]
    if known.empty:
        raise SettingsError("no model was measured on two datasets")
    means = (
        Column("dataset", "dataset"),
        Column("reference", "reference"),
        Column("n", "models", whole),
        Column("dtw", "DTW", fixed(3)),
        Column("dtw_std", "deviation of DTW", fixed(3)),
        Column("euclidean", "Euclidean", fixed(3)),
        Column("euclidean_std", "deviation of Euclidean", fixed(3)),
        _REASON,
    )
    single = (
        Column("model", "model"),
        Column("family", "family"),
        Column("dataset", "dataset"),
        Column("sites", "sites", whole),
        Column("dtw", "DTW", fixed(3)),
        Column("euclidean", "Euclidean", fixed(3)),
        Column("mean_difference", "difference of means", fixed(3)),
        _REASON,
    )
    caption = f"Deviation from the signature on {known['reference'].iloc[0]}"
    chart = dataset_chart(found, provenance=material.provenance_of_scored)
    sql = sites_sql(material.scored, _CURVE)
    return answer(
        Exhibit("datasets", chart, dataset_rows(found), sql),
        tables=(
            table("datasets", f"{caption}, mean over models.", summary, means),
            table("deviations", f"{caption}, model by model.", found, single),
        ),
    )


def checkpoints(material: Material) -> Section:
    """Return the page of several trained checkpoints of one architecture."""
    from analysis.contrasts.checkpoints import CRITERIA, robustness
    from analysis.figures.robustness import robustness_chart, robustness_rows

    found = robustness(material.measured)
    if found.empty or found["relative_std"].isna().all():
        raise SettingsError(
            "no architecture was measured with two trained checkpoints on one dataset"
        )
    columns = (
        Column("architecture", "architecture"),
        Column("dataset", "dataset"),
        Column("metric", "metric", lambda value: str(value).replace("_", " ")),
        Column("n", "checkpoints", whole),
        Column("mean", "mean"),
        Column("std", "deviation"),
        Column(
            "relative_std", "relative deviation", fixed(3), "deviation over the size of the mean"
        ),
        Column("correlation", "correlation", fixed(2), "of pairs of checkpoints, over sites"),
        Column("correlation_lowest", "lowest", fixed(2), "of all pairs"),
        _REASON,
    )
    caption = "Each metric's mean over sites, over the checkpoints of one architecture."
    chart = robustness_chart(found, provenance=material.provenance_of_scored)
    sql = sites_sql(
        material.scored, ("run_id", "architecture", "checkpoint", "dataset", "site", *CRITERIA)
    )
    return answer(
        Exhibit("robustness", chart, robustness_rows(found), sql),
        tables=[table("robustness", caption, found, columns)],
    )


def training(material: Material) -> Section:
    """Return the page of trained networks against their random initialisation."""
    from analysis.contrasts.training import training_shift
    from analysis.figures.training import training_chart, training_rows

    found = training_shift(material.measured)
    known = found[found["shift"].notna()]
    if known.empty:
        raise SettingsError(
            "no architecture was measured both trained and at random initialisation on one dataset"
        )
    columns = (
        Column("model", "model"),
        Column("family", "family"),
        Column("dataset", "dataset"),
        Column("initial", "initial"),
        Column("trained", "trained"),
        Column("sites", "sites", whole),
        Column("mean_initial", "mean at first", fixed(3)),
        Column("mean_trained", "mean trained", fixed(3)),
        Column("shift", "shift", fixed(3)),
        Column("lowered", "sites lowered", percent),
        Column("dtw", "DTW", fixed(3)),
        Column("p", "p", probability, "Wilcoxon's signed ranks, site by site"),
        Column("p_corrected", "p corrected", probability, "Holm's correction"),
        _REASON,
    )
    caption = "Trained networks against random initialisations of the same architecture."
    chart = training_chart(material.measured, provenance=material.provenance_of_scored)
    sql = sites_sql(material.scored, _CURVE)
    return answer(
        Exhibit("training", chart, training_rows(material.measured), sql),
        tables=[table("training", caption, found, columns)],
    )


#: Where a number is printed, as the paper writes it.
_PRINTED = {**{f"table{n}": f"Table {n}" for n in (1, 2, 3)}, "fig4": "Figure 4"}


def paper(material: Material) -> Section:
    """Return the page of the paper's printed numbers beside ours."""
    from analysis.figures.paper import paper_chart, paper_rows
    from analysis.paper.compare import compare_paper

    found = compare_paper(material.measured, material.done, material.layers)
    known = found[found["ours"].notna() & found["paper"].notna()]
    if known.empty:
        raise SettingsError("nothing that the paper prints a number for was measured")
    chart = paper_chart(found, provenance=material.provenance_of_scored)
    sql = sites_sql(material.scored, (*_CURVE, *PAPER_METRICS))
    columns = (
        Column("name", "name"),
        Column("table", "table", lambda value: _PRINTED.get(value, value)),
        Column("quantity", "quantity", lambda value: str(value).replace("_", " ")),
        Column("dataset", "dataset"),
        Column("paper", "paper", fixed(2)),
        Column("ours", "ours", fixed(2)),
        Column("ours_error", "error of ours", fixed(2), "standard error from the images seen"),
        Column("difference", "difference", fixed(2), "ours less the paper's"),
        Column("n", "n", whole),
        Column("note", "note"),
    )
    caption = "The numbers that arXiv:2310.11439 prints, and ours."
    return answer(
        Exhibit("paper", chart, paper_rows(found), sql),
        tables=[table("paper", caption, known, columns)],
    )
