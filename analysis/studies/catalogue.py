"""The studies by name: what each shows, and which options it takes.

A study is a module of this package, named as the study, with functions that return its table and
its figure. Imports no torch: the module is imported on use.
"""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any

from survey import SettingsError, UnknownName

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

#: Options, and the parameters each may set: the first of them that a study has. A study with none
#: of them does not take the option.
OPTIONS = {
    "activation": ("activations",),
    "images-per-score": ("batch_sizes", "images_per_score"),
    "d": ("d", "channels", "dimensions"),
    "dataset": ("dataset",),
    "degree": ("degrees",),
    "deviation": ("deviation", "deviations"),
    "mean": ("mean", "means"),
    "model": ("network", "networks"),
    "n": ("n",),
    "scale": ("scales",),
    "seed": ("seed", "seeds"),
}


@dataclass(frozen=True, slots=True)
class Study:
    """One study, and its module's functions ``NOUN_scores`` and ``NOUN_chart``."""

    #: Its name on the command line, and that of its module.
    name: str
    #: How the names of its public functions begin.
    noun: str
    #: What it shows.
    sentence: str

    def run(self, **options: Sequence[Any]) -> pd.DataFrame:
        """Return the study's table; a slow study says in the log how far it is.

        Parameters
        ----------
        **options : sequence
            The values of those of ``OPTIONS`` that were given.

        Raises
        ------
        SettingsError
            If the study does not take an option, or takes it once and it is given twice.
        """
        scores = self._function("scores")
        parameters = inspect.signature(scores).parameters
        accepted = {
            option: next(parameters[name] for name in names if name in parameters)
            for option, names in OPTIONS.items()
            if not parameters.keys().isdisjoint(names)
        }
        arguments: dict[str, Any] = {}
        for option, values in options.items():
            if option not in accepted:
                raise SettingsError(
                    f"the study {self.name} takes no --{option}",
                    hint=f"it takes {', '.join('--' + each for each in accepted)}",
                )
            parameter = accepted[option]
            several = isinstance(parameter.default, tuple)
            if len(values) > 1 and not several:
                raise SettingsError(
                    f"the study {self.name} takes one --{option}, {len(values)} were given"
                )
            arguments[parameter.name] = values if several else values[0]
        table: pd.DataFrame = scores(**arguments)
        return table

    def draw(self, table: pd.DataFrame) -> alt.TopLevelMixin:
        """Return the study's figure."""
        chart: alt.TopLevelMixin = self._function("chart")(table)
        return chart

    def _function(self, kind: str) -> Any:
        return resolve_name(f"analysis.studies.{self.name}:{self.noun}_{kind}")


#: Every study, in the order of the paper's figures.
STUDIES = (
    Study("ranges", "range", "Activations on normal samples whose mean slides over [-20, 20]."),
    Study(
        "comparison",
        "comparison",
        "Activations on one and the same sample, beside their closed forms.",
    ),
    Study("polynomials", "polynomial", "Powers of rising degree."),
    Study("reductions", "reduction", "Tensors that are averaged, summed or flattened."),
    Study(
        "shrinkage",
        "shrinkage",
        "Samples whose dimension passes n, with shrunk covariances and without.",
    ),
    Study(
        "batches",
        "batch_size",
        "A bundled network's signature with several numbers of images in a score.",
    ),
    Study("seeds", "seed", "A bundled network retrained from nine seeds."),
    Study("training", "training", "Bundled networks at initialisation and trained."),
    Study(
        "mlps",
        "mlp",
        "Random perceptrons with growing weights, beside their functions' mean frequency.",
    ),
)


def study(name: str) -> Study:
    """Return a study by its name.

    Raises
    ------
    UnknownName
        If there is none.
    """
    known = {each.name: each for each in STUDIES}
    if name not in known:
        raise UnknownName("study", name, list(known))
    return known[name]
