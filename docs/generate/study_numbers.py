"""The numbers and tables that the text on each study holds, computed from the study's table.

A function for each study: it returns the values of the fields of ``studies/STUDY.md``.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.studies.figure_7 import FIGURE_7
from analysis.studies.mlps import mlp_summary
from analysis.studies.networks import spread
from analysis.studies.ranges import range_summary
from docs.generate.tables import markdown_table

Numbers = dict[str, object]


def ranges(table: pd.DataFrame) -> Numbers:
    """Return the lowest scores of each activation, and how often it has none."""
    by_mean = range_summary(table).groupby("activation", sort=False)
    drawn = table[table["sample"] == "normal"].groupby("activation")["affinity"]
    baseline = table[table["sample"] == "baseline"].set_index("activation")["affinity"]
    rows = {
        "lowest score": by_mean["low"].min(),
        "lowest median": by_mean["median"].min(),
        "baseline": baseline,
        "means with a median below 0.95": by_mean["median"].agg(lambda m: int((m < 0.95).sum())),
        "samples with a constant output": drawn.agg(lambda scores: int(scores.isna().sum())),
    }
    return {"table": _markdown(pd.DataFrame(rows).loc[list(by_mean.groups)].reset_index())}


def comparison(table: pd.DataFrame) -> Numbers:
    """Return the scores, and how far they are from the closed forms."""
    columns = ["activation", "affinity", "closed_form"]
    return {"gap": _gap(table, "closed_form"), "table": _markdown(table[columns], 4)}


def polynomials(table: pd.DataFrame) -> Numbers:
    """Return the scores of each degree, and the highest of an even one around 0."""
    wide = table.pivot_table(index="degree", columns="interval", values="affinity")
    even = table[(table["degree"] % 2 == 0) & (table["low"] < 0)]["affinity"]
    return {
        "gap": _gap(table, "closed_form"),
        "even": even.max(),
        "table": _markdown(wide.reset_index()),
    }


def reductions(table: pd.DataFrame) -> Numbers:
    """Return the scores of the plainest reading beside the paper's, and of all readings."""
    many = table[table["channels"] == table["channels"].max()]
    plainest = many[many["construction"] == "independent positions"]
    by_name = plainest.pivot_table(index="activation", columns="reduction", values="affinity")
    beside = by_name.assign(mean=by_name.mean(axis=1), std=by_name.std(axis=1))
    beside["paper"], beside["paper's std"] = FIGURE_7["pooled"], FIGURE_7["pooled_deviation"]
    beside["difference"] = beside["mean"] - beside["paper"]
    keys = ["channels", "construction", "reduction"]
    others = table.pivot_table(index=keys, columns="activation", values="affinity")
    return {
        "positions": plainest["positions"].iloc[0],
        "channels": plainest["channels"].iloc[0],
        "scores": len(plainest),
        "largest": _gap(plainest, "paper"),
        "beside": _markdown(beside.reset_index()),
        "others": _markdown(others[["relu", "gelu", "tanh", "sigmoid"]].reset_index()),
    }


def shrinkage(table: pd.DataFrame) -> Numbers:
    """Return the shrunk scores beside the paper's, and where the plain ones reach the paper's."""
    shrunk = table[table["shrinkage"] == "ledoit-wolf"]
    beside = shrunk.groupby("activation")["affinity"].agg(["mean", "min", "max"])
    beside.columns = pd.Index(["mean over d", "lowest", "highest"])
    beside["paper"] = FIGURE_7["shrunk"]
    beside["difference"] = beside["mean over d"] - beside["paper"]
    plain = table[table["shrinkage"] == "none"]
    wide = plain.pivot_table(index="activation", columns="d", values="affinity")
    curve = wide.rename(columns=lambda size: f"d = {size}")
    printed = curve["paper (d > n)"] = FIGURE_7["unshrunk"].loc[wide.index]
    # Along a curve that rises, the dimension at which it reaches the printed value.
    dimensions = wide.columns.to_numpy(float)
    curve["reached at d"] = [
        f"{np.interp(value, scores, dimensions):.0f}"
        for value, scores in zip(printed, wide.to_numpy(), strict=True)
    ]
    return {
        "largest": _gap(shrunk, "paper"),
        "shrunk": _markdown(beside.reset_index()),
        "unshrunk": _markdown(curve.reset_index()),
    }


def batches(table: pd.DataFrame) -> Numbers:
    """Return how far a site's score moves with the number of images in a score."""
    moved = spread(table, "images_per_score")
    return {
        "network": table["architecture"].iloc[0],
        "sizes": ", ".join(map(str, sorted(table["images_per_score"].unique()))),
        "largest": moved["range"].max(),
        "mean": moved["range"].mean(),
        "table": _markdown(moved.drop(columns=["architecture", "values"])),
    }


def seeds(table: pd.DataFrame) -> Numbers:
    """Return how far a site's score moves with the seed, and the accuracies reached."""
    moved = spread(table, "seed")
    accuracies = table.groupby("seed")["heldout_top1"].first()
    return {
        "network": table["architecture"].iloc[0],
        "first": accuracies.index.min(),
        "last": accuracies.index.max(),
        "images": table["images_per_score"].iloc[0],
        "worst": accuracies.min(),
        "best": accuracies.max(),
        "deviation": moved["std"].max(),
        "mean_deviation": moved["std"].mean(),
        "largest": moved["range"].max(),
        "table": _markdown(moved.drop(columns=["architecture", "values"])),
    }


def training(table: pd.DataFrame) -> Numbers:
    """Return how many sites are lower after training, and the means of each network."""
    wide = table.pivot_table(index=["architecture", "site"], columns="trained", values="affinity")
    by_network = wide.groupby("architecture")
    means = by_network.mean().rename(columns={False: "initial", True: "trained"})
    means["change"] = means["trained"] - means["initial"]
    ends = by_network.last()
    means["last site, initial"], means["last site, trained"] = ends[False], ends[True]
    return {
        "images": table["images_per_score"].iloc[0],
        "lower": (wide[True] < wide[False]).sum(),
        "sites": len(wide),
        "table": _markdown(means.reset_index(names="network")),
    }


def mlps(table: pd.DataFrame) -> Numbers:
    """Return scores and mean frequencies by scale, and how they go together."""
    summary = mlp_summary(table)
    ends = summary.groupby("activation", sort=False)[["affinity", "complexity"]].agg(
        ["first", "last"]
    )
    changes = [
        f"{name}: score {before:.3f} to {after:.3f}, mean frequency {low:.2f} to {high:.2f}"
        for name, before, after, low, high in ends.itertuples()
    ]
    together = table.dropna(subset=["affinity", "complexity"])
    columns = ["activation", "scale", "affinity", "affinity_std", "complexity"]
    return {
        "smallest": summary["scale"].min(),
        "largest": summary["scale"].max(),
        "changes": "; ".join(changes),
        "networks": len(together),
        "correlation": together["affinity"].corr(together["complexity"], method="spearman"),
        "table": _markdown(summary[columns]),
    }


def _gap(table: pd.DataFrame, expected: str) -> float:
    """Return the largest difference of a score from the one expected, where there is one."""
    return float((table["affinity"] - table[expected]).abs().max())


def _markdown(table: pd.DataFrame, digits: int = 3) -> str:
    """Return a table in Markdown, numbers rounded."""

    def cell(value: object) -> str:
        if isinstance(value, float):
            return "-" if np.isnan(value) else f"{value:.{digits}f}"
        return str(value)

    rows = ([cell(value) for value in row] for row in table.to_numpy(dtype=object))
    return markdown_table(list(map(str, table.columns)), rows)
