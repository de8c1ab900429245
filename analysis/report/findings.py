"""Pages about what goes with the signature: the other metrics, and accuracy."""

from __future__ import annotations

from typing import Literal

import pandas as pd

from analysis.figures.text import sentence
from analysis.report.data import Material, runs_sql, sites_sql
from analysis.report.elements import (
    Column,
    Exhibit,
    Section,
    Table,
    fixed,
    probability,
    table,
    whole,
)
from analysis.report.svg import answer
from survey.errors import SettingsError


def _spaced(name: object) -> str:
    return str(name).replace("_", " ")


_SITES_DEPEND = (
    "The sites of one network are not independent, so intervals and p-values of single models are"
    " too sure of themselves."
)

_CORRELATED = (
    "Pearson's correlation over the sites of a model between its affinity score and each other"
    " metric; for a family and for all, the mean over architectures, random weights left out, with"
    " its deviation (Tables 1 and 2 of arXiv:2310.11439)."
)

_PICKED = (
    "Top-1 accuracy on one predictor at a time, within a group of families and a dataset (Fig. 4"
    " of arXiv:2310.11439, which picks the best of many on four to nine points). Beside R2 stand R2"
    " on models left out one by one, and the chance of so good a best predictor if accuracies"
    " belonged to any model."
)

#: What accuracies and characteristics of networks are read from.
_REGRESSED = (
    *("run_id", "source", "architecture", "family_group", "checkpoint", "dataset", "pooling"),
    *("measured_top1", "images", "reported_top1", "depth", "parameters", "gflops"),
)

_CORRELATION = (
    Column("dataset", "dataset"),
    Column("metric", "metric", _spaced),
    Column("n", "n", whole),
    Column("pearson", "Pearson's r", fixed(2)),
    Column("std", "deviation", fixed(2), "over architectures"),
    Column("low", "from", fixed(2), "lower end of the 95 % interval"),
    Column("high", "to", fixed(2), "upper end of the 95 % interval"),
    Column("p", "p", probability),
    Column("p_corrected", "p corrected", probability, "Holm's correction over the table's tests"),
    Column("reason", "why something is blank"),
)


def correlations(material: Material) -> Section:
    """Return the page of the other metrics: Pearson's r with affinity."""
    from analysis.figures.correlation import correlation_chart, correlation_rows
    from analysis.relations.correlation import PAPER_METRICS
    from analysis.relations.correlation import correlations as correlate

    found = correlate(material.measured)
    overall = found[(found["level"] == "all") & found["pearson"].notna()]
    if overall.empty:
        raise SettingsError("no model has enough sites with both metrics")
    level: Literal["family", "model"] = "family" if (found["level"] == "family").any() else "model"
    chart = correlation_chart(found, level, provenance=material.provenance_of_scored)
    sql = sites_sql(material.scored, ("run_id", "family", "site", "affinity", *PAPER_METRICS))
    return answer(
        Exhibit("correlations", chart, correlation_rows(found, level), sql),
        paragraphs=(_CORRELATED, _SITES_DEPEND),
        tables=_correlation_tables(material, found),
    )


def _correlation_tables(material: Material, found: pd.DataFrame) -> list[Table]:
    said = {
        "all": "Mean correlation over all architectures.",
        "family": "Mean correlation over the architectures of each family.",
        "model": "Correlation over the sites of each model.",
    }
    tables = []
    for level, caption in said.items():
        links = material.pages_by_model if level == "model" else {}
        rows = found[found["level"] == level]
        columns = (
            Column("name", level if level != "all" else "architectures", links=links),
            *_CORRELATION,
        )
        if len(rows):
            tables.append(table(f"correlations-{level}", caption, rows, columns))
    return tables


def regressions(material: Material) -> Section:
    """Return the page of accuracy against the signature, group by group."""
    from analysis.figures.regression import regression_chart, regression_rows
    from analysis.relations.accuracy_spread import accuracy_spread, chance_words
    from analysis.relations.regression import LEAST_MODELS
    from analysis.relations.regression import regressions as regress

    found = regress(material.measured, material.done)
    picked = found[found["picked"] & found["r2"].notna()]
    if picked.empty:
        raise SettingsError(
            "no group of families has four models with an accuracy on one dataset and a statistic"
            " that varies"
        )
    measured, done = material.measured, material.done
    known = done[done["run_id"].isin(material.scored)]
    chance = chance_words(accuracy_spread(known), LEAST_MODELS)
    chart = regression_chart(found, measured, done, provenance=material.provenance_of_scored)
    rows = regression_rows(found, measured, done)
    sql = runs_sql(material.scored, _REGRESSED)
    return answer(
        Exhibit("regressions", chart, rows, sql),
        paragraphs=(_PICKED, *(sentence(f"Here, {clause}") for clause in chance)),
        tables=(
            _regression_table("picked", "The best predictor of each kind and group.", picked),
            _regression_table("all", _EVERY, _fitted(found)),
        ),
    )


_EVERY = "Every predictor, in the groups and datasets where any line could be fitted."


def _fitted(found: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of groups and datasets in which any line could be fitted."""
    fits = found.groupby(["group", "dataset"])["r2"].transform("count")
    return found[fits > 0]


def _regression_table(name: str, caption: str, rows: pd.DataFrame) -> Table:
    columns = (
        Column("predictor", "predictor", _spaced),
        Column("group", "group"),
        Column("dataset", "dataset"),
        Column("kind", "kind"),
        Column("n", "models", whole),
        Column("r2", "R2", fixed(2)),
        Column(
            "r2_left_out", "R2 left out", fixed(2), "below 0 where it predicts worse than the mean"
        ),
        Column("slope", "slope"),
        Column("p", "p", probability, "of this predictor alone, by permutation"),
        Column("p_picked", "p of the pick", probability, "of the best of its kind, by permutation"),
        Column("accuracy", "accuracy"),
        Column("reason", "why something is blank"),
    )
    return table(f"regressions-{name}", caption, rows, columns)
