"""``survey correlate``: how far the affinity follows other measures (Tables 1 and 2)."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jobs.choices import LevelChoice
from jobs.cli.run_filters import Asked, ComparePaperOption, UntrainedOption, analysing
from survey.text import counted

_TABLE = {
    **dict.fromkeys(("name", "metric", "n", "pearson", "std", "low", "high")),
    "p_corrected": "p",
    "reason": None,
}

#: The level at which the summary calls a corrected p-value small.
_SMALL = 0.05


@analysing
def correlate(
    asked: Asked,
    level: Annotated[
        LevelChoice, typer.Option("--level", help="Each model, families' means, or over all.")
    ] = "family",
    metric: Annotated[
        list[str] | None, typer.Option("--metric", help="Columns.  [default: the paper's five]")
    ] = None,
    untrained: UntrainedOption = False,
    compare_paper: ComparePaperOption = False,
) -> None:
    """Correlate the affinity with CKA, norm, sparsity, entropy and R2 over each model's sites.

    P-values are corrected for their number by Holm's method.
    """
    from analysis.relations.correlation import PAPER_METRICS, correlations

    signatures = asked.signatures()
    if compare_paper:
        from jobs.cli.compare import answer_paper

        answer_paper(asked, signatures, ("table1", "table2"))
        return
    found = correlations(signatures, tuple(metric or PAPER_METRICS), untrained=untrained)
    # Concerning the rows of the level alone: what it was made from stays in attrs.
    table = found[found["level"] == level].reset_index(drop=True)

    def draw() -> Any:
        from analysis import figures

        return figures.correlation_chart(found, level)

    asked.answer(
        table, _headings(table), [*_means(found, untrained=untrained), _small(table)], draw
    )


def _headings(table: Any) -> dict[str, str | None]:
    several = table["dataset"].nunique() > 1
    return ({"name": None, "dataset": None} if several else {}) | _TABLE


def _means(found: Any, *, untrained: bool) -> list[str]:
    by_dataset = list(found[found["level"] == "all"].groupby("dataset"))
    several = len(by_dataset) > 1
    weights = "random weights counted" if untrained else "without random weights"
    return [
        _mean(rows.to_dict("records"), f" on {dataset}" if several else "", weights)
        for dataset, rows in by_dataset
    ]


def _mean(over: list[dict[str, Any]], where: str, weights: str) -> str:
    told = [
        f"{row['metric']} {row['pearson']:.2f}"
        + (f" +- {row['std']:.2f}" if row["std"] == row["std"] else "")
        for row in over
        if row["n"]
    ]
    most = max((row["n"] for row in over), default=0)
    over_what = f"{counted(most, 'architecture')}{where}, {weights}"
    return f"mean correlation over {over_what}: {', '.join(told) or 'none'}"


def _small(table: Any) -> str:
    tested = table["p_corrected"].notna()
    if not tested.any():
        return "none of the correlations shown can be tested: see their reasons"
    small = int((table["p_corrected"] <= _SMALL).sum())
    return (
        f"{small} of {int(tested.sum())} correlations shown differ from 0 at the level {_SMALL},"
        " all of them together (Holm)"
    )
