"""Measures of whole networks beside signatures and accuracy."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from analysis.answers.base import TRAINED_ALONE, Answer
from analysis.answers.columns import Table, TableColumn
from analysis.choices import Accuracy
from analysis.option_fields import LARGEST_SEED, option
from analysis.text import cell, fixed, spaced
from survey.network_measures.base import conventions
from survey.text import counted

if TYPE_CHECKING:
    import pandas as pd

#: Reasons for having no value that a terminal lists; a page has all of them.
MOST_REASONS = 3

#: What tables show of a measure of one run.
OF_A_RUN = (
    *(TableColumn("measure", form=spaced), TableColumn("value", form=cell)),
    TableColumn("standard_error", "error", cell, "standard error of the value"),
    TableColumn("samples", meaning="images, lines or pairs that it is estimated from"),
    *("reason", TableColumn("conventions", meaning="what the value rests on")),
)

_VALUES = ("model", "family", TableColumn("dataset", varying=True), *OF_A_RUN)


@dataclass(frozen=True, eq=False)
class NetworkMeasures(Answer):
    """Correlate measures of whole networks with signatures and accuracy, given depth and width.

    A point is an architecture, with the mean over its checkpoints. Each correlation is followed by
    the one given depth, width and sparsity; p is by permutation of families.
    """

    name = page = "measures"
    command = "correlate --measures"
    title = "Measures"
    caption = "Each measure with statistics of the signature and with top-1 accuracy."
    method = (
        "A measure is a number of a network as a whole. A point is an"
        " architecture, with the mean over its checkpoints. The"
        " correlation given depth, width and sparsity is that of what least-squares fits on them"
        " leave: on the logarithms of the layers with weights on the longest path and of the"
        " median site's channels, and on the mean share of outputs near zero. p permutes families,"
        " and architectures within each, as those of one family are alike (9,999 draws by"
        " default). Fisher's interval takes them for independent: of few families it is too short."
    )
    columns = (
        *(TableColumn("dataset", varying=True), TableColumn("measure", form=spaced)),
        *(TableColumn("target", "with"), TableColumn("given", meaning="variables held constant")),
        *("n", TableColumn("families"), "pearson", "low", "high"),
        *(TableColumn("spearman", "Spearman's rho", fixed(2)), "p", "p_corrected", "q", "reason"),
    )
    unit = "the architecture, within families of them"
    computed_by = "analysis.relations.network_measures:measure_correlations"
    found_by = "analysis.relations.network_measures:measures_finding"
    figure = "measure"
    needed = "pearson"
    apart = ("dataset", "pooling")
    view = "network_scores JOIN runs USING (run_id)"
    source = (
        *("run_id", "measure", "value", "standard_error", "reason", "details", "architecture"),
        *("family", "checkpoint", "dataset", "measured_top1", "reported_top1", "depth"),
    )

    permutations: int = option(9999, "Number of permutations.", minimum=1, maximum=100_000)
    seed: int = option(0, "Seed of the permutations.", minimum=0, maximum=LARGEST_SEED)
    accuracy: Accuracy = option("measured", "Which top-1 accuracy where both are known.")

    @property
    def read(self) -> Sequence[str]:
        """The columns of signatures that statistics, widths and sparsities are computed from."""
        return ("run_id", "affinity", "channels", "sparsity_after")

    @property
    def inputs(self) -> Sequence[Any]:
        """The signatures, the runs with their accuracies, and the measures."""
        return self.signatures, self.material.done, self.material.measures

    @property
    def drawn(self) -> Sequence[Any]:
        """The correlations, and the points behind them."""
        return self.statistics, *self.inputs, self.accuracy

    @property
    def _scores(self) -> pd.DataFrame:
        """The measures of the runs that it is about, with and without a value."""
        from analysis.data.rows_of_runs import of_runs

        return of_runs(self.material.measures, self.signatures)

    def details(self) -> Sequence[str]:
        """Return what is left out, and the commonest reasons of missing values."""
        lacking = self._scores[self._scores["value"].isna()]
        pairs = Counter(zip(lacking["measure"], lacking["reason"], strict=True))
        return [
            TRAINED_ALONE,
            *(
                f"{counted(count, 'run')} without {spaced(measure)}: {reason}"
                for (measure, reason), count in pairs.most_common(MOST_REASONS)
            ),
        ]

    def tables(self) -> Iterator[Table]:
        """Yield the correlations, and every value or the reason for having none."""
        yield from super().tables()
        resting = ["; ".join(conventions(details)) for details in self._scores["details"]]
        rows = self._scores.assign(conventions=resting)
        yield Table(f"{self.name}-values", "Every value, or why there is none.", rows, _VALUES)
