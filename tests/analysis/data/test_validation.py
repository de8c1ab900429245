"""What is taken for something else is refused with the word for what was wanted."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest

import analysis
from analysis import figures
from analysis.contrasts.datasets import dataset_summary
from analysis.contrasts.residual import twins
from analysis.figures.depth_axis import depths
from analysis.relations import distributions, timeline
from analysis.relations.accuracy_spread import accuracy_spread
from analysis.relations.correlation import PAPER_METRICS
from analysis.similarity import distances
from analysis.similarity.clusters import cluster, clusters
from analysis.similarity.kmeans import kmeans
from survey.errors import SettingsError
from tests.analysis.figures.frames import surveyed
from tests.analysis.made import models

SIGNATURES = surveyed(4)
RUNS = models(["a", "b"]).assign(architecture="a", images=9)
LAYERS = SIGNATURES.assign(batch=0, **dict.fromkeys(PAPER_METRICS, 0.5))
MATRIX = distances.distance_matrix(SIGNATURES, cache=False)
DISTANCES = "distance_matrix(signatures)"
FITS = pd.DataFrame(columns=["picked", "r2_left_out", "kind"])

#: What each parameter is wanted from, and something right where another one is wrong.
WANTED = {
    "signatures": ("analysis.signatures(home)", LAYERS.drop(columns="batch")),
    "models": ("analysis.models(home)", RUNS),
    "layers": ("analysis.layers(home)", LAYERS),
    "matrix": (DISTANCES, MATRIX),
    "clustering": (f"cluster({DISTANCES})", cluster(MATRIX)),
    "found": ("(", kmeans(MATRIX, 2)),
    "correlations": ("correlations(signatures)", None),
    "deviations": ("dataset_deviations(signatures)", None),
    "neighbours": (f"neighbours({DISTANCES})", None),
    "novelty": (f"novelty({DISTANCES})", None),
    "comparison": ("compare_paper(signatures, models)", None),
    "predictions": (f"family_predictions({DISTANCES})", None),
    "regressions": ("regressions(signatures, models)", FITS),
    "robustness": ("robustness(signatures)", None),
    "rows": ("distribution_rows(signatures)", None),
    "scores": ("_scores()", None),
    "shapes": ("shapes(signatures)", distributions.shapes(SIGNATURES, draws=1)),
    "timeline": ("timeline(signatures)", None),
}  # fmt: skip

#: What takes any frame: it asks where that came from, or writes it beside a figure.
ANY = {"provenance_of", "save"}

#: What else is given to a function, by the name of the parameter.
ELSE = {"family": "VGG", "path": "figure.svg", "over": "run", "number": 2}


def asked() -> Iterator[tuple[Callable[..., Any], str]]:
    """Yield every public function with each of its parameters that holds what was measured."""
    public = [getattr(analysis, name) for name in analysis.__all__]
    public += [getattr(figures, name) for name in figures.__all__]
    public += [
        accuracy_spread,
        twins,
        dataset_summary,
        timeline.timeline,
        distributions.shapes,
        depths,
    ]
    for each in dict.fromkeys(each for each in public if inspect.isfunction(each)):
        for name, parameter in inspect.signature(each).parameters.items():
            kinds = ("DataFrame", "DistanceMatrix", "Clustering", "Barycentres", "Drift")
            if each.__name__ not in ANY and any(kind in parameter.annotation for kind in kinds):
                yield each, name


def arguments(ask: Callable[..., Any]) -> dict[str, Any]:
    """Return what is right for every parameter that needs a value."""
    right = {name: each for name, (_, each) in WANTED.items()} | ELSE
    found = inspect.signature(ask).parameters.values()
    return {
        each.name: right[each.name] for each in found if each.default is inspect.Parameter.empty
    }


@pytest.mark.parametrize(
    ("ask", "name"), [pytest.param(*each, id=f"{each[0].__name__}-{each[1]}") for each in asked()]
)
def test_what_is_given_in_the_place_of_another(ask: Callable[..., Any], name: str) -> None:
    wanted, _ = WANTED[name]
    others = {"signatures": SIGNATURES, "models": RUNS, "layers": LAYERS, "matrix": MATRIX}
    others |= {"clusters": clusters(SIGNATURES), "home": "survey-home"}
    for other, given in others.items():
        # The study of training draws the signatures of checkpoints, wherever they are from.
        drawn = ask.__module__ == "analysis.studies.training" and other in ("signatures", "layers")
        if other == name or drawn:
            continue
        with pytest.raises(SettingsError) as refused:
            ask(**{**arguments(ask), name: given})
        assert wanted in str(refused.value.hint), other


def test_an_error_names_every_column_that_is_missing() -> None:
    with pytest.raises(SettingsError) as refused:
        timeline.timeline(models(["a"]).drop(columns="year"))
    assert refused.value.message == "the frame has no column year, affinity"
