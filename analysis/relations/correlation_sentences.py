"""Sentences on correlations of the affinity signature with other metrics."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.choices import Level
from analysis.statistics.p_values import SIGNIFICANT
from analysis.text import number, span
from survey.metrics import title_of
from survey.text import counted


def correlations_finding(correlations: pd.DataFrame, level: Level = "family") -> str:
    """Return which metric follows the affinity most at a level, as a sentence.

    Parameters
    ----------
    correlations : pandas.DataFrame
        From ``analysis.relations.metric_correlations.correlations``.
    level : {"model", "family", "all"}
        Whose correlations.
    """
    known = correlations[(correlations["level"] == level) & correlations["pearson"].notna()]
    if level == "family" and len(known):
        # The mean of one architecture says nothing of its family.
        known = known[known["n"] > 1]
        if known.empty:
            return "No family has a correlation over several architectures"
    if known.empty:
        return "No correlation can be computed"
    noun = {"model": "model", "family": "family", "all": "survey"}[level]
    means = known.groupby("metric", sort=False)["pearson"].agg(["min", "max", "mean"])
    # Of equal ones the first by the name that is shown.
    means = means.rename(index=title_of).sort_index()
    row = means.iloc[int(np.argmax(means["mean"].abs()))]
    strongest = known[known["metric"].map(title_of) == row.name]
    members = strongest["name"].nunique()
    count = counted(members, noun, "families" if noun == "family" else "")
    lead = "Even the metric" if row["min"] < 0 < row["max"] else "The metric"
    tested = strongest["p_corrected"].dropna()
    small = f"{int((tested <= SIGNIFICANT).sum())} of {len(tested)} differ from 0 at {SIGNIFICANT}"
    doubt = f"{small} after Holm's correction" if len(tested) else "none can be tested"
    if members == 1:
        mean = number(row["mean"])
        return f"{row.name} follows the affinity most: correlation {mean} ({count}; {doubt})"
    return (
        f"{lead} that follows the affinity most, {row.name}, correlates with it by"
        f" {span(row['min'], row['max'])} (mean {number(row['mean'])}, {count}; {doubt})"
    )


def means_sentences(correlations: pd.DataFrame) -> list[str]:
    """Return the mean correlations over all architectures, a sentence a dataset.

    Parameters
    ----------
    correlations : pandas.DataFrame
        From ``analysis.relations.metric_correlations.correlations``.
    """
    by_dataset = list(correlations[correlations["level"] == "all"].groupby("dataset"))
    counted_too = correlations.attrs.get("untrained")
    weights = "random weights counted" if counted_too else "without random weights"
    sentences = []
    for dataset, rows in by_dataset:
        most = int(rows["n"].max())
        values = [
            f"{title_of(row['metric'])} {number(row['pearson'])}"
            + ("" if pd.isna(row["std"]) else f" ± {number(row['std'])}")
            # Not every run has every metric.
            + ("" if row["n"] == most else f" ({int(row['n'])} of them)")
            for row in rows[rows["n"] > 0].to_dict("records")
        ]
        on = f" on {dataset}" if len(by_dataset) > 1 else ""
        architectures = f"{counted(most, 'architecture')}{on}, {weights}"
        means = ", ".join(values) or "none"
        sentences.append(f"Mean correlation over {architectures}: {means}.")
    return sentences
