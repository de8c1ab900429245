"""Arguments of a wrong kind are refused, with the call that returns the right one as a hint."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
import pytest

import analysis
from analysis import figures
from analysis.choices import PAPER_METRICS
from analysis.contrasts.datasets import dataset_summary
from analysis.contrasts.residual_networks import twins
from analysis.figures.marks.depth_axis import depths
from analysis.relations import score_shapes, timeline
from analysis.relations.accuracy_spread import accuracy_spread
from analysis.similarity import distances
from analysis.similarity.clusters import cluster, clusters
from survey.errors import SettingsError
from tests.analysis.figures.frames import surveyed
from tests.analysis.made import models
from tests.analysis.similarity.made_curves import barycentres

#: What each parameter is wanted from.
WANTED = {
    "signatures": "analysis.signatures(home)",
    "models": "analysis.models(home)",
    "layers": "analysis.layers(home)",
    "matrix": "distance_matrix(signatures)",
    "clustering": "cluster(distance_matrix(signatures))",
    "barycentres": "(",
    "drift": "(",
    "correlations": "correlations(signatures)",
    "measures": "analysis.measure_scores(home)",
    "relations": "measure_correlations(signatures, models, measures)",
    "deviations": "dataset_deviations(signatures)",
    "neighbours": "neighbours(distance_matrix(signatures))",
    "novelty": "novelty(distance_matrix(signatures))",
    "comparison": "compare_paper(signatures, models)",
    "predictions": "family_predictions(distance_matrix(signatures))",
    "regressions": "regressions(signatures, models)",
    "robustness": "robustness(signatures)",
    "rows": "distribution_rows(signatures)",
    "scores": "_scores()",
    "shapes": "shapes(signatures)",
    "timeline": "timeline(signatures)",
    "trends": "trends(signatures, models)",
    "points": "trend_points(signatures, models)",
}


@pytest.fixture(scope="module")
def right() -> dict[str, Any]:
    """Something right for a parameter where another one is wrong."""
    signatures = surveyed(4).assign(
        **dict.fromkeys((*PAPER_METRICS, "sparsity_after"), 0.5), channels=8
    )
    matrix = distances.distance_matrix(signatures, cache=False)
    return dict.fromkeys(WANTED) | {
        "signatures": signatures,
        "models": models(["a", "b"]).assign(architecture="a", images=9),
        "layers": signatures.assign(batch=0),
        "measures": pd.DataFrame(columns=["run_id", "measure", "value"]),
        "relations": pd.DataFrame(columns=["measure", "target", "given"]),
        "matrix": matrix,
        "clustering": cluster(matrix),
        "barycentres": barycentres(matrix, 2),
        # Whatever is no drift: it is replaced.
        "drift": matrix,
        "regressions": pd.DataFrame(columns=["picked", "r2_left_out", "kind", "predictor"]),
        "shapes": score_shapes.shapes(signatures, draws=1),
        "clusters": clusters(signatures),
        "trends": pd.DataFrame(columns=["network", "change"]),
        "home": "survey-home",
        # What else is given to a function, by the name of the parameter.
        "family": "VGG",
        "path": "figure.svg",
        "over": "run",
        "number": 2,
    }


#: What takes any frame: it asks where that came from, or writes it beside a figure.
ANY = {"provenance_of", "save"}


def calls() -> Iterator[tuple[Callable[..., Any], str]]:
    """Yield every public function with each of its parameters that holds what was measured."""
    public = [getattr(analysis, name) for name in analysis.__all__]
    public += [getattr(figures, name) for name in figures.__all__]
    public += [
        accuracy_spread,
        twins,
        dataset_summary,
        timeline.timeline,
        score_shapes.shapes,
        depths,
    ]
    for each in dict.fromkeys(each for each in public if inspect.isfunction(each)):
        for name, parameter in inspect.signature(each).parameters.items():
            kinds = ("DataFrame", "DistanceMatrix", "Clustering", "Barycentres", "Drift")
            if each.__name__ not in ANY and any(kind in parameter.annotation for kind in kinds):
                yield each, name


def arguments(ask: Callable[..., Any], right: dict[str, Any]) -> dict[str, Any]:
    """Return what is right for every parameter that needs a value."""
    parameters = inspect.signature(ask).parameters.values()
    return {
        each.name: right[each.name]
        for each in parameters
        if each.default is inspect.Parameter.empty
    }


@pytest.mark.slow(seconds=10)
def test_what_is_given_in_the_place_of_another(
    subtests: pytest.Subtests, right: dict[str, Any]
) -> None:
    for ask, name in calls():
        with subtests.test(ask.__name__, name=name):
            for other in ("signatures", "models", "layers", "matrix", "clusters", "home"):
                # The study of training draws signatures of checkpoints, wherever they are from.
                drawn = ask.__module__.endswith("studies.training")
                if other == name or (drawn and other in ("signatures", "layers")):
                    continue
                with pytest.raises(SettingsError) as refused:
                    ask(**{**arguments(ask, right), name: right[other]})
                assert WANTED[name] in str(refused.value.hint), other


def test_an_error_names_every_column_that_is_missing() -> None:
    with pytest.raises(SettingsError) as refused:
        timeline.timeline(models(["a"]).drop(columns="year"))
    assert refused.value.message == "the frame has no column year, affinity"
