"""The studies by name: what each shows, which options it takes, which functions do it.

Imports no torch: a study's modules are imported when it is run.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from survey import SettingsError, UnknownName

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd


@dataclass(frozen=True, slots=True)
class Study:
    """One study: a function that returns a table, and one that draws it."""

    #: How the command line calls it.
    name: str
    #: What it shows.
    sentence: str
    #: The figure of the paper that it follows, or nothing.
    figure: str
    #: Its module in this package.
    module: str
    #: The functions that make the table and draw it.
    scores: str
    chart: str
    #: Options that take one value: option to parameter.
    single: Mapping[str, str]
    #: Options that may be given several times: option to parameter.
    several: Mapping[str, str]

    def run(self, say: Callable[[str], None], **given: Sequence[Any] | None) -> pd.DataFrame:
        """Return the study's table.

        Parameters
        ----------
        say : callable
            Called with a sentence as a slow study goes on.
        **given : sequence or None
            The values of each option; None where it was not given.

        Raises
        ------
        SettingsError
            If the study does not take an option, or takes it once and it is given twice.
        """
        arguments = self._arguments({name: list(v) for name, v in given.items() if v})
        scores = self._function(self.scores)
        if "say" in inspect.signature(scores).parameters:
            arguments["say"] = say
        table: pd.DataFrame = scores(**arguments)
        return table

    def draw(self, table: pd.DataFrame) -> alt.TopLevelMixin:
        """Return the study's figure."""
        drawn: alt.TopLevelMixin = self._function(self.chart)(table)
        return drawn

    def _function(self, name: str) -> Any:
        return getattr(importlib.import_module(f"analysis.studies.{self.module}"), name)

    def _arguments(self, given: Mapping[str, list[Any]]) -> dict[str, Any]:
        arguments: dict[str, Any] = {}
        for option, values in given.items():
            if option in self.several:
                arguments[self.several[option]] = values
            elif option not in self.single:
                takes = sorted("--" + known for known in (*self.single, *self.several))
                raise SettingsError(
                    f"the study {self.name} takes no --{option}",
                    hint=f"it takes {', '.join(takes)}",
                )
            elif len(values) > 1:
                raise SettingsError(
                    f"the study {self.name} takes one --{option}, {len(values)} were given"
                )
            else:
                arguments[self.single[option]] = values[0]
        return arguments


def _same(*names: str) -> dict[str, str]:
    return dict(zip(names, names, strict=True))


_MANY_ACTIVATIONS = {"activation": "activations"}

#: Every study, in the order of the paper's figures.
STUDIES = (
    Study(
        "ranges",
        "Activations on normal samples whose mean slides over [-20, 20].",
        "Figures 2A and 6",
        "ranges", "range_scores", "range_chart",
        _same("n", "d", "seed"),
        {**_MANY_ACTIVATIONS, "mean": "means", "deviation": "deviations"},
    ),
    Study(
        "comparison",
        "Activations on one and the same sample, beside their closed forms.",
        "Figure 2B",
        "comparison", "comparison_scores", "comparison_chart",
        _same("mean", "deviation", "n", "d", "seed"), _MANY_ACTIVATIONS,
    ),
    Study(
        "polynomials",
        "Powers of rising degree.",
        "Figure 2C",
        "polynomials", "polynomial_scores", "polynomial_chart",
        _same("n", "d", "seed"), {"degree": "degrees"},
    ),
    Study(
        "reductions",
        "Tensors that are averaged, summed or flattened.",
        "Figure 7, left",
        "reductions", "reduction_scores", "reduction_chart",
        _same("n", "seed"), {**_MANY_ACTIVATIONS, "d": "channels"},
    ),
    Study(
        "shrinkage",
        "Samples whose dimension passes n, with shrunk covariances and without.",
        "Figure 7, right",
        "shrinkage", "shrinkage_scores", "shrinkage_chart",
        _same("n", "seed"), {**_MANY_ACTIVATIONS, "d": "dimensions"},
    ),
    Study(
        "batches",
        "A bundled network's signature with several numbers of images in a score.",
        "Figure 8, left",
        "batch_sizes", "batch_size_scores", "batch_size_chart",
        {"model": "network", "dataset": "dataset"}, {"batch-size": "batch_sizes"},
    ),
    Study(
        "seeds",
        "A bundled network retrained from nine seeds.",
        "Figure 8, right",
        "seeds", "seed_scores", "seed_chart",
        {"model": "network", "batch-size": "images_per_score"}, {"seed": "seeds"},
    ),
    Study(
        "training",
        "Bundled networks at initialisation and trained.",
        "Figure 9",
        "training", "training_scores", "training_chart",
        {"seed": "seed", "batch-size": "images_per_score"}, {"model": "networks"},
    ),
    Study(
        "mlps",
        "Random perceptrons with growing weights, beside their functions' mean frequency.",
        "",
        "mlps", "mlp_scores", "mlp_chart",
        {"seed": "seed"}, {**_MANY_ACTIVATIONS, "scale": "scales"},
    ),
)  # fmt: skip


def study(name: str) -> Study:
    """Return a study by its name.

    Raises
    ------
    UnknownName
        If there is none.
    """
    for known in STUDIES:
        if known.name == name:
            return known
    raise UnknownName("study", name, [known.name for known in STUDIES])
