"""What is taken for something else is refused with the word for what was wanted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from analysis import figures, history, pairs, residual, shapes
from analysis.barycentres import kmeans
from analysis.clustering import cluster, clusters
from analysis.figures.depth import depths
from survey.errors import SettingsError
from tests.analysis.figures.frames import surveyed
from tests.analysis.made import models

SIGNATURES = surveyed(4)
MATRIX = pairs.distance_matrix(SIGNATURES, cache=False)
DISTANCES = "distance_matrix(signatures)"


@pytest.mark.parametrize(
    "ask",
    [
        history.timeline, shapes.shapes, residual.residual_contrast, pairs.distances, depths,
        clusters, figures.distribution_chart, figures.residual_chart, figures.signature_chart,
        figures.model_chart, figures.training_chart,
    ],
)  # fmt: skip
@pytest.mark.parametrize("given", [models(["a", "b"]), MATRIX, "survey-home"])
def test_what_is_no_frame_of_signatures(ask: Callable[[Any], Any], given: Any) -> None:
    with pytest.raises(SettingsError, match=r"has no column|a DataFrame is wanted") as refused:
        ask(given)
    assert "analysis.signatures(home)" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("ask", "source"),
    [
        (lambda given: kmeans(given, 2), DISTANCES),
        (cluster, DISTANCES),
        (figures.matrix_chart, DISTANCES),
        (figures.dendrogram_chart, f"cluster({DISTANCES})"),
        (figures.dendrogram_rows, f"cluster({DISTANCES})"),
        (figures.barycentre_chart, f"kmeans({DISTANCES}, number)"),
        (figures.timeline_chart, "timeline(signatures)"),
        (figures.neighbour_chart, f"neighbours({DISTANCES})"),
        (figures.novelty_chart, f"novelty({DISTANCES})"),
        (figures.prediction_chart, f"family_predictions({DISTANCES})"),
        (figures.dataset_chart, "dataset_deviations(signatures)"),
        (figures.robustness_chart, "robustness(signatures)"),
        (figures.paper_chart, "compare_paper(signatures, models)"),
        (figures.correlation_chart, "correlations(signatures)"),
        (lambda given: figures.regression_chart(given, given, given), "regressions(signatures"),
    ],
)
def test_what_is_another_result(ask: Callable[[Any], Any], source: str) -> None:
    for given in (SIGNATURES, clusters(SIGNATURES)):
        with pytest.raises(SettingsError, match=r"has no column|is wanted, not a DataFrame") as no:
            ask(given)
        assert source in str(no.value.hint)


def test_an_error_names_every_column_that_is_missing() -> None:
    with pytest.raises(SettingsError) as refused:
        history.timeline(models(["a"]).drop(columns="year"))
    assert refused.value.message == "the frame has no column year, affinity"
