"""Region density against absolute deviation under noisy labels: ``docs/noisy-labels.md``.

Networks of several widths are trained on the digits with a share of their labels drawn at random.
Around held-out digits the linear regions of every line are traced exactly, and its absolute
deviation is integrated exactly: both of Gamba et al. 2022, arXiv:2202.11749. Everything is drawn
from seeds.

    python -m bench.noisy_labels docs              # about five minutes of one core
    python -m bench.noisy_labels docs --composed   # the page alone, from the numbers that lie there
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata, spearmanr, t
from torch import nn
from torch.nn import functional

from analysis.figures.export import save
from analysis.figures.theme import COLOURS, styled
from catalog.models.base import InputTransform
from catalog.zoo.train import hits, labelled_images
from docs.generate.tables import markdown_table
from survey.regions.around_images import along_paths
from survey.regions.crossings import traced
from survey.regions.line import Line
from survey.regions.watched_network import WatchedNetwork

#: Shares of the labels that are drawn at random, and seeds of weights, labels and order.
NOISES, SEEDS = (0.0, 0.4, 1.0), (0, 1, 2)

#: Held-out digits around which lines are traced: 8 lines each.
IMAGES = 16

#: Passes over the training images, images in a step, and the highest learning rate of Adam.
EPOCHS, STEP, RATE = 150, 128, 5e-3

#: Resamples of a bootstrap, and its seed.
RESAMPLES, SEED = 1000, 0

#: The digits as they are: 8 x 8, of which the three channels are the same.
TRANSFORM = InputTransform(size=8, resize=8)


def perceptron(width: int) -> nn.Module:
    """Return a perceptron with two hidden layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
        nn.Linear(width, 10),
    )  # fmt: skip


def convolutional(width: int) -> nn.Module:
    """Return three convolutions with average pooling between, and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(width, 2 * width, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
        nn.Conv2d(2 * width, 4 * width, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(16 * width, 10),
    )  # fmt: skip


#: The builders of networks by family, each with its widths.
FAMILIES: dict[str, tuple[Callable[[int], nn.Module], tuple[int, ...]]] = {
    "perceptron": (perceptron, (16, 64, 256)),
    "convolutional": (convolutional, (2, 4)),
}

#: The paper's correlations for CIFAR-10 at each noise: VGG8 and ResNet18.
PUBLISHED = {0.0: ("-0.15", "0.05"), 0.4: ("0.11", "0.21"), 1.0: ("0.14", "0.27")}


@dataclass(frozen=True, slots=True)
class Case:
    """One training."""

    family: str
    width: int
    noise: float
    seed: int


def cases() -> Iterator[Case]:
    """Yield every training."""
    for family, (_, widths) in FAMILIES.items():
        for width in widths:
            for noise in NOISES:
                for seed in SEEDS:
                    yield Case(family, width, noise, seed)


def digits(subset: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the digits of a subset, n x 1 x 8 x 8, and their labels."""
    images, labels = labelled_images(subset, TRANSFORM)
    return images[:, :1], labels


def noisy(labels: torch.Tensor, share: float, generator: torch.Generator) -> torch.Tensor:
    """Return labels of which a share is drawn anew from the ten classes."""
    drawn = torch.randint(10, labels.shape, generator=generator)
    chosen = torch.rand(labels.shape, generator=generator) < share
    return torch.where(chosen, drawn, labels)


def trained(case: Case, images: torch.Tensor, labels: torch.Tensor) -> nn.Module:
    """Return a network trained to fit labels, in eval mode."""
    torch.manual_seed(case.seed)
    model = FAMILIES[case.family][0](case.width)
    optimiser = torch.optim.Adam(model.parameters(), RATE)
    steps = len(labels) // STEP
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=EPOCHS * steps)
    for _ in range(EPOCHS):
        for chosen in torch.randperm(len(labels))[: steps * STEP].split(STEP):
            loss = functional.cross_entropy(model(images[chosen]), labels[chosen])
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            schedule.step()
    return model.eval()


def measured(case: Case) -> dict[str, object]:
    """Train a network and return its accuracies and the means along its lines."""
    began = time.process_time()
    images, clean = digits("train")
    generator = torch.Generator().manual_seed(1000 + case.seed)
    labels = noisy(clean, case.noise, generator)
    model = trained(case, images, labels)
    held_out, truth = digits("heldout")
    with torch.inference_mode():
        spread = model(held_out).double().var(0).sum().sqrt().item()
    lines = _lines(model, held_out[:IMAGES])
    density, deviation, length = (each.mean(1).numpy() for each in lines.unbind(2))
    relative = (lines[..., 1] / lines[..., 2]).mean(1).numpy() / spread
    return {
        "family": case.family,
        "width": case.width,
        "noise": case.noise,
        "seed": case.seed,
        "fitted": hits(model, images, labels) / len(labels),
        "held_out": hits(model, held_out, truth) / len(truth),
        "density": density.mean(),
        "deviation": deviation.mean(),
        "relative": relative.mean(),
        "length": length.mean(),
        "within": spearmanr(density, deviation).statistic,
        "seconds": time.process_time() - began,
    }


def _lines(model: nn.Module, images: torch.Tensor) -> torch.Tensor:
    """Return density, absolute deviation and length of every line, n x K x 3."""

    def of_line(line: Line) -> list[float]:
        crossings = traced(line)
        return [crossings.density, crossings.absolute_deviation.norm().item(), line.distance]

    steps = along_paths(WatchedNetwork(model, exact=True), images, of_line)
    while True:
        try:
            next(steps)
        except StopIteration as end:
            values: torch.Tensor = end.value
            return values


def _within(networks: pd.DataFrame) -> str:
    """Return the mean over networks of their own correlations, with its 95 % interval."""
    values = networks["within"].dropna().to_numpy()
    mean, n = float(values.mean()), len(values)
    arm = float(t.ppf(0.975, n - 1)) * float(values.std(ddof=1)) / n**0.5
    return f"{mean:.2f} ({mean - arm:.2f} to {mean + arm:.2f})"


def _over(networks: pd.DataFrame) -> str:
    """Return the correlation over networks, with the 95 % interval of a bootstrap over them."""
    pairs = networks[["density", "relative"]].to_numpy()
    drawn = np.random.default_rng(SEED).integers(len(pairs), size=(RESAMPLES, len(pairs)))
    ranks = rankdata(pairs[drawn], axis=1)
    x, y = (ranks - ranks.mean(1, keepdims=True)).transpose(2, 0, 1)
    size = np.sqrt((x**2).sum(1) * (y**2).sum(1))
    spread = (x * y).sum(1)[size > 0] / size[size > 0]
    low, high = np.percentile(spread, [2.5, 97.5])
    return f"{spearmanr(*pairs.T).statistic:.2f} ({low:.2f} to {high:.2f})"


def _means(rows: pd.DataFrame) -> str:
    """Return the table of the means over seeds."""
    head = [
        "family", "width", "noise", "labels fitted", "held out", "density", "deviation",
        "/ (length x spread)",
    ]  # fmt: skip
    lines = [
        [
            str(family), str(width), f"{noise:.0%}", f"{some.fitted.mean():.1%}",
            f"{some.held_out.mean():.1%}", _spread(some.density), _spread(some.deviation),
            _spread(some.relative),
        ]
        for (family, width, noise), some in _grouped(rows, ["family", "width", "noise"])
    ]  # fmt: skip
    return markdown_table(head, lines)


def _spread(values: pd.Series) -> str:
    return f"{values.mean():.3g} ± {values.std():.1g}"


def _grouped(rows: pd.DataFrame, names: list[str]) -> Iterator[tuple[Any, pd.DataFrame]]:
    yield from rows.groupby(names, sort=False)


def _correlations(rows: pd.DataFrame) -> str:
    """Return the table of correlations by family and noise."""
    lines = [
        [str(family), f"{noise:.0%}", _within(some), _over(some), *PUBLISHED[noise]]
        for (family, noise), some in _grouped(rows, ["family", "noise"])
    ]
    head = [
        "family", "noise", "over the images of a network", "over networks", "paper, VGG8",
        "paper, ResNet18",
    ]  # fmt: skip
    return markdown_table(head, lines)


def _at_one_width(rows: pd.DataFrame) -> str:
    """Return the table of correlations by family and width, over noise and seeds."""
    lines = [
        [str(family), str(width), _over(some)]
        for (family, width), some in _grouped(rows, ["family", "width"])
    ]
    lines += [[str(family), "all", _over(some)] for (family,), some in _grouped(rows, ["family"])]
    return markdown_table(["family", "width", "over networks of all noises"], lines)


def chart(rows: pd.DataFrame) -> alt.TopLevelMixin:
    """Draw deviation over density, a point a network, a panel a family."""
    shown = rows.assign(labels=[f"{noise:.0%} noisy" for noise in rows.noise])
    points = (
        alt.Chart(shown)
        .mark_point(filled=True, opacity=0.8)
        .encode(
            alt.X("density:Q").title("Region density of a line").scale(type="log"),
            alt.Y("relative:Q").title("Deviation / (length x spread)"),
            alt.Color("labels:N").title("Labels").scale(COLOURS).sort(list(shown.labels.unique())),
            alt.Size("width:O").title("Width").scale(range=[25, 200]),
            alt.Column("family:N").title(None),
        )
        .properties(width=260, height=240)
        .resolve_scale(x="independent")
    )
    return styled(points)


PAGE = """# Region density and absolute deviation under noisy labels

The experiment of Gamba and others 2022 (arXiv:2202.11749) on the bundled digits: {networks}
networks of two families, with three and two widths, nine of each width, trained until their labels
are fitted as far as they can be. Of the labels 0, 40 or 100 % are drawn anew from the ten classes.
Around {images} held-out digits every line of a closed path ([linear-regions.md](linear-regions.md))
is traced exactly: its region density, and the exact absolute deviation of the logits.

```
python -m bench.noisy_labels docs
```

draws everything from seeds and took {minutes} minutes of processor time on one core. The numbers
of each network are in [figures/noisy_labels.csv](figures/noisy_labels.csv).

Digits are 8 x 8, copies are moved by one pixel (4 of 32), and lines are {length:.1f} long. A
perceptron has two hidden layers of its width; a convolutional network three convolutions of its
width, twice and four times that, with average pooling. "Labels fitted" are the training labels as
they were drawn, "held out" the accuracy on true ones. Means over seeds, with the deviation over
them:

{means}

![Deviation over density, a point a network](figures/noisy_labels.svg)

## Do they say the same?

Spearman's correlation of density and deviation: over the images of a network, as the mean over
the networks of a row with Student's 95 % interval; and over these networks (deviation / (length x
spread)), with the interval of {resamples} resamples of networks, which for so few is rough. The
paper's values, of networks trained on CIFAR-10, are beside them.

{correlations}

Over networks of one width, noises and seeds together:

{widths}

## What the paper says, and what these networks do

- The paper: density and deviation are nearly uncorrelated, from -0.15 to 0.27, and density is a
  noisy estimator of the non-linearity of large networks. Here, over the images of one network,
  they correlate by {lowest:.2f} to {highest:.2f} on average: mostly more than in the paper, and
  far from alike. These networks are small and their digits have 64 pixels; the paper's code, as
  published, differs in the deviation and the paths too ([linear-regions.md](linear-regions.md)).
- Noise raises both. From 0 to 100 % the density of a line grows by a factor of {density_low:.1f}
  to {density_high:.1f}, and the deviation, in units of length and spread, by {relative_low:.1f}
  to {relative_high:.1f}: at one width they rank networks alike.
- Width raises the density alone. From the narrowest to the widest perceptron it grows by
  {width_density_low:.0f} to {width_density_high:.0f} times, while the deviation changes by a
  factor of {width_relative_low:.2f} to {width_relative_high:.2f}. Across widths a density says
  how many units there are before it says how non-linear the function is: there the paper's
  conclusion holds.
- The paper also follows both through a second descent of the test error. That takes many more
  widths around the threshold at which labels are fitted, and was not looked for here.
"""


def _factors(rows: pd.DataFrame) -> dict[str, float]:
    """Return by how much noise and width raise both, the least and the greatest factor."""
    means = rows.groupby(["family", "width", "noise"])[["density", "relative"]].mean()
    clean, random = (means.xs(noise, level="noise") for noise in (0.0, 1.0))
    widths = means.loc["perceptron"]
    narrow, wide = FAMILIES["perceptron"][1][0], FAMILIES["perceptron"][1][-1]
    by_noise, by_width = random / clean, widths.loc[wide] / widths.loc[narrow]
    within = rows.groupby(["family", "noise"])["within"].mean()
    factors = {"lowest": within.min(), "highest": within.max()}
    for name in ("density", "relative"):
        for begin, values in (("", by_noise), ("width_", by_width)):
            factors[f"{begin}{name}_low"] = values[name].min()
            factors[f"{begin}{name}_high"] = values[name].max()
    return factors


def compose(folder: Path, rows: pd.DataFrame) -> None:
    """Write the figure and the page."""
    save(chart(rows), folder / "figures" / "noisy_labels.svg")
    tables = {
        "means": _means(rows),
        "correlations": _correlations(rows),
        "widths": _at_one_width(rows),
        "networks": len(rows),
        "images": IMAGES,
        "resamples": f"{RESAMPLES:,}",
        "length": rows.length.mean(),
        "minutes": f"{rows.seconds.sum() / 60:.0f}",
        **_factors(rows),
    }
    (folder / "noisy-labels.md").write_text(PAGE.format_map(tables), encoding="utf-8")


def main() -> None:
    """Train, measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--composed", action="store_true", help="write the page alone")
    options = parser.parse_args()
    numbers = options.folder / "figures" / "noisy_labels.csv"
    torch.set_num_threads(1)
    if not options.composed:
        rows = pd.DataFrame(measured(case) for case in cases())
        rows.to_csv(numbers, index=False, float_format="%.6g", lineterminator="\n")
    compose(options.folder, pd.read_csv(numbers))


if __name__ == "__main__":
    main()
