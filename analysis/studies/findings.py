"""What each study's table says, in words with its numbers in them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import altair as alt
import numpy as np
import pandas as pd

from analysis.studies.mlps import mlp_summary
from analysis.studies.networks import spread
from analysis.studies.paper import FIGURE_7
from analysis.studies.ranges import range_line_chart, range_summary
from analysis.studies.reductions import CONSTRUCTIONS


@dataclass(frozen=True, slots=True)
class Finding:
    """One section of the document."""

    title: str
    #: What the figure shows.
    shown: str
    #: What was found: paragraphs and tables in Markdown.
    text: str
    #: Further figures by file name.
    more_charts: Mapping[str, alt.TopLevelMixin] = field(default_factory=dict)


def markdown(table: pd.DataFrame, digits: int = 3) -> str:
    """Return a table in Markdown, numbers rounded."""

    def cell(value: object) -> str:
        if isinstance(value, float):
            return "-" if math.isnan(value) else f"{value:.{digits}f}"
        return str(value)

    lines = ["| " + " | ".join(map(str, table.columns)) + " |", "|" + "---|" * table.shape[1]]
    lines += [
        "| " + " | ".join(cell(v) for v in row) + " |" for row in table.to_numpy(dtype=object)
    ]
    return "\n".join(lines)


def ranges(table: pd.DataFrame) -> Finding:
    """Figures 2A and 6."""
    summary = range_summary(table)
    drawn = table[table["sample"] == "normal"]
    by_name = summary.groupby("activation", sort=False)
    rows = pd.DataFrame(
        {
            "lowest score": by_name["low"].min(),
            "lowest median": by_name["median"].min(),
            "baseline": table[table["sample"] == "baseline"].set_index("activation")["affinity"],
            "means with a median below 0.95": by_name["median"].agg(
                lambda m: int((m < 0.95).sum())
            ),
            "samples with a constant output": drawn.groupby("activation")["affinity"].agg(
                lambda a: int(a.isna().sum())
            ),
        }
    ).loc[list(dict.fromkeys(table["activation"]))]
    rows.insert(0, "activation", rows.index)
    return Finding(
        "Score against the range of the input",
        "Each sample is 1000 points in R^300 with independent normal coordinates: 20 means equally "
        "spread on [-20, 20], six deviations (2, 1, 0.5, 0.25, 0.1, 0.01). Boxes are the quartiles "
        "over deviations, whiskers the whole range, ticks the median; the dashed line is the "
        "baseline, a sample that is uniform on the whole interval; the grey line is the activation "
        "itself, on the right axis. The second figure is Figure 2A: ReLU, one line a deviation.",
        "An activation is as linear as the piece of it that the inputs see: ReLU, Hardtanh and "
        "ReLU6 score low only near their corners. Where the output is constant there is no score, "
        "and the figure has a gap. Sigmoid and tanh stay nonlinear in their tails, which fall off "
        "like an exponential, whose score depends on the deviation alone as long as the mean is "
        "many deviations from 0 and the values are far from the last digits of float64.\n\n"
        "Where GELU, SiLU and Hardswish fall, left of their lowest points, they score low wherever "
        "there is a score, nearly straight as they are there. The map T is positive definite and "
        "cannot turn an axis round, so that a falling line is far from it: the score tells rising "
        "from falling."
        "\n\n" + markdown(rows),
        {"range_lines": range_line_chart(table)},
    )


def comparison(table: pd.DataFrame) -> Finding:
    """Figure 2B."""
    gap = float((table["affinity"] - table["closed_form"]).abs().max())
    return Finding(
        "Activations on one input",
        "1000 points in R^300 with independent standard normal coordinates. Ticks are the closed "
        "form 1 - sqrt(1 - r) with r the correlation of z and sigma(z) for z ~ N(0, 1).",
        f"The scores agree with the closed forms to {gap:.4f}. The piecewise linear ReLU is less "
        "linear than tanh and sigmoid on the same input, as the paper says.\n\n"
        + markdown(table[["activation", "affinity", "closed_form"]], 4),
    )


def polynomials(table: pd.DataFrame) -> Finding:
    """Figure 2C."""
    wide = table.pivot_table(index="degree", columns="interval", values="affinity")
    wide.insert(0, "degree", wide.index)
    expected = table.dropna(subset="closed_form")
    gap = float((expected["affinity"] - expected["closed_form"]).abs().max())
    even = table[(table["degree"] % 2 == 0) & (table["low"] < 0)]["affinity"]
    return Finding(
        "Polynomials",
        "Powers x^k of 1000 points in R^300 with coordinates uniform on an interval; the paper "
        "states no input, so there are two. Dashed: the closed form 1 - sqrt(1 - corr(x, x^k)).",
        "Where a power rises over the whole interval its score falls with the degree, and agrees "
        f"with the closed form to {gap:.4f}. On an interval around 0 even powers have no linear "
        f"part: they score at most {even.max():.3f} at every degree, odd ones as before.\n\n"
        + markdown(wide),
    )


def reductions(table: pd.DataFrame) -> Finding:
    """Figure 7, left."""
    many = table[table["channels"] == table["channels"].max()]
    own = many[many["construction"] == "independent positions"]
    by_name = own.pivot_table(index="activation", columns="reduction", values="affinity")
    ours = by_name.mean(axis=1)
    beside = pd.DataFrame(
        {
            "activation": by_name.index,
            **{name: by_name[name].to_numpy() for name in by_name},
            "mean": ours.to_numpy(),
            "std": by_name.std(axis=1).to_numpy(),
            "paper": [FIGURE_7[name].pooled for name in by_name.index],
            "paper's std": [FIGURE_7[name].pooled_deviation for name in by_name.index],
        }
    )
    beside["difference"] = beside["mean"] - beside["paper"]
    largest = float((own["affinity"] - own["paper"]).abs().max())
    others = table.pivot_table(
        index=["channels", "construction", "reduction"], columns="activation", values="affinity"
    )[["relu", "gelu", "tanh", "sigmoid"]].reset_index()
    meanings = "\n".join(f"- *{name}*: {meaning}." for name, meaning in CONSTRUCTIONS.items())
    positions, channels = int(own["positions"].iloc[0]), int(own["channels"].iloc[0])
    return Finding(
        "Averaging, summing and flattening",
        f"Standard normal tensors, n = 1000, c channels, {positions} positions. The paper states "
        "neither its tensors nor whether it activates before or after reducing, so several "
        f"readings are tried:\n\n{meanings}",
        "The paper's values come out of the plainest reading: independent positions, activated "
        f"and then averaged, summed or flattened, with {channels} channels. Every one of the "
        f"{len(own)} scores is within {largest:.3f} of the printed value.\n\n"
        + markdown(beside)
        + "\n\nThe reason: averaging independent positions leaves the correlation of input and "
        "output what it is at one position, so with many channels the closed form "
        "1 - sqrt(1 - r) holds for all three. With a single channel it does not hold: averages of "
        "many positions are nearly normal before and after, and in one dimension transport finds "
        "an affine map between any two normal laws, whatever the pairs. Reducing first gives an "
        "input of another deviation, which only the activations that scale with their input do "
        "not see; scaled back to deviation 1 it gives the paper's values again. One draw repeated "
        "at every position gives them too, flattened a little higher, because its covariance has "
        "lower rank and is shrunk more.\n\n" + markdown(others),
    )


def shrinkage(table: pd.DataFrame) -> Finding:
    """Figure 7, right."""
    shrunk = table[table["shrinkage"] == "ledoit-wolf"]
    plain = table[table["shrinkage"] == "none"]
    by_name = shrunk.groupby("activation")["affinity"]
    beside = pd.DataFrame(
        {
            "activation": list(by_name.mean().index),
            "mean over d": by_name.mean().to_numpy(),
            "lowest": by_name.min().to_numpy(),
            "highest": by_name.max().to_numpy(),
            "paper": [FIGURE_7[name].shrunk for name in by_name.mean().index],
        }
    )
    beside["difference"] = beside["mean over d"] - beside["paper"]
    largest = float((shrunk["affinity"] - shrunk["paper"]).abs().max())
    wide = plain.pivot_table(index="activation", columns="d", values="affinity")
    curve = wide.rename(columns=lambda size: f"d = {size}")
    curve["paper (d > n)"] = [FIGURE_7[name].unshrunk for name in curve.index]
    # Along a curve that rises, the dimension at which it reaches the printed value.
    curve["reached at d"] = [
        f"{np.interp(FIGURE_7[str(name)].unshrunk, own.to_numpy(), own.index.to_numpy(float)):.0f}"
        for name, own in wide.iterrows()
    ]
    curve.insert(0, "activation", curve.index)
    return Finding(
        "Shrinkage as the dimension passes n",
        "Independent standard normal coordinates, n = 1000, dimension d below and above n.",
        f"Shrunk, every score over every d is within {largest:.3f} of the paper's value:\n\n"
        + markdown(beside)
        + "\n\nUnshrunk, the score rises with d, above n because the covariances are singular. "
        "The paper prints one value for each activation, without its n and d; the last column is "
        "where our curve, drawn straight between its points, reaches it.\n\n" + markdown(curve),
    )


def batches(table: pd.DataFrame) -> Finding:
    """Figure 8, left."""
    moved = spread(table, "images_per_score")
    sizes = sorted(int(size) for size in table["images_per_score"].unique())
    return Finding(
        "Batch size",
        f"The signature of `{table['architecture'].iloc[0]}` with its bundled weights on the 1797 "
        f"digits, with {', '.join(map(str, sizes))} images in a score, averaged over the whole "
        "batches that the dataset holds.",
        f"Over batch sizes a site's score moves by at most {moved['range'].max():.3f} "
        f"(mean {moved['range'].mean():.3f}).\n\n" + _spread_table(moved),
    )


def seeds(table: pd.DataFrame) -> Finding:
    """Figure 8, right."""
    moved = spread(table, "seed")
    accuracies = table.groupby("seed")["heldout_top1"].first()
    return Finding(
        "Seed of the training",
        f"`{table['architecture'].iloc[0]}` retrained by the bundled recipe from seeds "
        f"{accuracies.index.min()} to {accuracies.index.max()} "
        "(`python -m catalog.zoo.train --seed`), each "
        f"measured on the 1797 digits with {int(table['images_per_score'].iloc[0])} images "
        f"in a score. Held-out accuracies lie between {accuracies.min():.3f} and "
        f"{accuracies.max():.3f}.",
        f"Over seeds a site's score has a standard deviation of at most {moved['std'].max():.3f} "
        f"(mean {moved['std'].mean():.3f}) and moves by at most {moved['range'].max():.3f}.\n\n"
        + _spread_table(moved),
    )


def _spread_table(moved: pd.DataFrame) -> str:
    return markdown(moved[["site", "site_name", "mean", "std", "low", "high", "range"]])


def training(table: pd.DataFrame) -> Finding:
    """Figure 9."""
    wide = table.pivot_table(index=["architecture", "site"], columns="trained", values="affinity")
    means = wide.groupby("architecture").mean().rename(columns={False: "initial", True: "trained"})
    means["change"] = means["trained"] - means["initial"]
    lower = int((wide[True] < wide[False]).sum())
    ends = wide.groupby("architecture").last()
    means["last site, initial"], means["last site, trained"] = ends[False], ends[True]
    means.insert(0, "network", means.index)
    return Finding(
        "Initial against trained",
        "The bundled zoo at its random initialisation (seed 0) and trained, on the 1797 digits, "
        f"{int(table['images_per_score'].iloc[0])} images in a score.",
        f"Training lowers the score at {lower} of {len(wide)} sites. Means over sites:\n\n"
        + markdown(means),
    )


def mlps(table: pd.DataFrame) -> Finding:
    """Random perceptrons."""
    summary = mlp_summary(table)
    changes = []
    for name, own in summary.groupby("activation", sort=False):
        first, last = own.iloc[0], own.iloc[-1]
        changes.append(
            f"{name}: score {first['affinity']:.3f} to {last['affinity']:.3f}, mean frequency "
            f"{first['complexity']:.2f} to {last['complexity']:.2f}"
        )
    scales = summary["scale"]
    together = table.dropna(subset=["affinity", "complexity"])
    correlation = float(together["affinity"].corr(together["complexity"], method="spearman"))
    return Finding(
        "Random perceptrons",
        "Untrained perceptrons 2-40-40-40-1 on a 32 x 32 grid over [-1, 1] x [-1, 1] (after Teney "
        "et al. 2024, arXiv:2403.02241). Weights and biases of a layer with m inputs are uniform "
        "on (-s, s), s = scale / sqrt(m); scale 1 is torch's own initialisation. The score is the "
        "mean over the three hidden activations, and over networks. The mean frequency is that of "
        "the function's discrete cosine transform on the grid, weighted by amplitude, in cycles "
        "over the grid's width: with F the transform less its mean and f = |(k1, k2)| / 2, "
        "sum |F| f / sum |F|.",
        f"From scale {scales.min():g} to {scales.max():g}: " + "; ".join(changes) + ". Over all "
        f"{len(together)} networks the rank correlation of score and mean frequency is "
        f"{correlation:.2f}. A ReLU network without biases only scales with its "
        "weights, and with them changes little; larger weights push tanh into its tails.\n\n"
        + markdown(summary[["activation", "scale", "affinity", "affinity_std", "complexity"]]),
    )


#: What is said of each study, by its name.
FINDINGS: Mapping[str, Callable[[pd.DataFrame], Finding]] = {
    "ranges": ranges,
    "comparison": comparison,
    "polynomials": polynomials,
    "reductions": reductions,
    "shrinkage": shrinkage,
    "batches": batches,
    "seeds": seeds,
    "training": training,
    "mlps": mlps,
}
