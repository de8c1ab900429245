"""``survey compare``: kinds of site, datasets, checkpoints or trainings, or the paper's numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, get_args

import typer

from jobs.choices import ComparisonChoice
from jobs.cli.run_filters import Asked, UntrainedOption, analysing
from survey.errors import SettingsError
from survey.text import counted

KindArgument = Annotated[
    ComparisonChoice,
    typer.Argument(metavar="KIND", help=f"{', '.join(get_args(ComparisonChoice))}."),
]

_PAPER = {
    **dict.fromkeys(("table", "name", "quantity", "paper", "paper_std", "ours", "ours_std")),
    "ours_error": "error",
    **dict.fromkeys(("n", "difference", "dataset", "note", "reason")),
}


@analysing
def compare(
    asked: Asked,
    kind: KindArgument,
    reference: Annotated[
        str | None,
        typer.Option("--reference", help="Of datasets: compare with this one.  [default: most]"),
    ] = None,
    all_rows: Annotated[
        bool, typer.Option("--all", help="Of paper: what was not surveyed too.")
    ] = False,
    untrained: UntrainedOption = False,
) -> None:
    """Compare signatures: with and without shortcuts, across datasets, checkpoints or training.

    residual: sites after a shortcut against the others. twins: residual networks against plain
    ones. datasets, checkpoints: of one network. training: random weights against trained ones.
    distributions: one heap of scores or two. paper: ours against the paper's printed numbers.
    """
    if reference is not None and kind != "datasets":
        raise SettingsError(f"--reference goes with datasets, not with {kind}", hint="leave it out")
    if all_rows and kind != "paper":
        raise SettingsError(f"--all goes with paper, not with {kind}", hint="leave it out")
    if untrained and kind not in _WITH_UNTRAINED:
        kinds = " and ".join(_WITH_UNTRAINED)
        raise SettingsError(f"--untrained goes with {kinds}, not with {kind}", hint="leave it out")
    signatures = asked.signatures()
    if kind == "paper":
        answer_paper(asked, signatures, all_rows=all_rows)
    elif kind == "datasets":
        _datasets(asked, signatures, reference)
    elif kind in _WITH_UNTRAINED:
        _WITH_UNTRAINED[kind](asked, signatures, untrained)
    else:
        _KINDS[kind](asked, signatures)


def answer_paper(
    asked: Asked,
    signatures: Any,
    tables: Sequence[str] = ("table1", "table2", "table3", "fig4"),
    *,
    all_rows: bool = False,
) -> None:
    """Write our numbers beside the paper's.

    Parameters
    ----------
    asked : Asked
        Which runs, and where the answer goes.
    signatures : pandas.DataFrame
        Their signatures.
    tables : sequence of str
        Which of the paper's tables and figures.
    all_rows : bool
        Whether to show what the paper prints of networks that were not surveyed, too.
    """
    from analysis.contrasts.checkpoints import CRITERIA
    from analysis.paper.compare import compare_paper, summary, surveyed_rows

    found = compare_paper(signatures, asked.models(), asked.layers(CRITERIA))
    found = found[found["table"].isin(tables)].reset_index(drop=True)
    ours = surveyed_rows(found)
    missing = len(found) - len(ours)
    told = f"printed numbers of networks or weights that were not surveyed: {missing}"
    hint = "survey run --model paper --dataset imagenet measures them"

    def draw() -> Any:
        from analysis import figures

        return figures.paper_chart(ours)

    lines = [*summary(found), *([f"{told} ({hint})"] if missing else [])]
    asked.answer(found if all_rows else ours, _PAPER, lines, draw if len(ours) else None)


def _residual(asked: Asked, signatures: Any) -> None:
    from analysis.contrasts.residual import residual_contrast
    from analysis.data.model_names import trained

    table = residual_contrast(signatures)
    known = table[table["cliffs_delta"].notna() & trained(table["checkpoint"])]
    effect = known["cliffs_delta"]
    told = (
        f"more linear after a shortcut: {int((known['difference'] > 0).sum())} of"
        f" {counted(len(known), 'trained network')} with such sites; Cliff's delta"
        f" {_range(effect)}"
    )
    none = "no trained network has sites with a score after a shortcut and others"

    def draw() -> Any:
        from analysis import figures

        return figures.residual_chart(signatures)

    summary = [told if len(known) else none]
    asked.answer(table, _main_columns(table), summary, draw if len(table) else None)


def _twins(asked: Asked, signatures: Any, untrained: bool) -> None:
    from analysis.contrasts.residual import twins

    table = twins(signatures, untrained=untrained)
    lines = [
        f"on {row['dataset']}, over {counted(row['n'], 'pair')}, the median affinity of the"
        f" residual networks is {row['difference']:+.3f} from the plain ones', p {row['p']:.3g}"
        for row in _records(table[(table["level"] == "all") & table["p"].notna()])
    ]

    def draw() -> Any:
        from analysis import figures

        return figures.residual_chart(signatures)

    none = ["no residual network was surveyed with its plain twin"]
    asked.answer(table, None, lines or none, draw if len(table) else None)


def _datasets(asked: Asked, signatures: Any, reference: str | None) -> None:
    from analysis.contrasts.datasets import dataset_deviations, dataset_summary

    table = dataset_deviations(signatures, reference)
    lines = [
        f"{row['dataset']} against {row['reference']}: mean DTW {row['dtw']:.3f}, Euclidean"
        f" {row['euclidean']:.3f} over {counted(row['n'], 'architecture')}"
        for row in _records(dataset_summary(table))
    ]

    def draw() -> Any:
        from analysis import figures

        return figures.dataset_chart(table)

    none = [] if len(table) else ["no model was surveyed on two datasets"]
    shown = _main_columns(table) | {"dataset": None}
    headings = {name: None for name in table.columns if name in shown}
    asked.answer(table, headings, lines or none, draw if len(table) else None)


def _checkpoints(asked: Asked, signatures: Any, untrained: bool) -> None:
    from analysis.contrasts.checkpoints import robustness

    table = robustness(signatures, untrained=untrained)
    lines = [
        f"{row['architecture']} on {row['dataset']}: affinity {row['mean']:.3f} +- {row['std']:.3f}"
        f" over {row['n']} checkpoints"
        for row in _records(table[(table["metric"] == "affinity") & table["std"].notna()])
    ]

    def draw() -> Any:
        from analysis import figures

        return figures.robustness_chart(table)

    none = ["no architecture was surveyed with two trained checkpoints"]
    asked.answer(table, None, lines or none, draw if lines else None)


def _training(asked: Asked, signatures: Any) -> None:
    from analysis.contrasts.training import training_shift

    table = training_shift(signatures)
    told = table.dropna(subset="shift")
    lowered, pairs = int((told["shift"] < 0).sum()), counted(len(told), "pair")
    words = f"training lowered the mean affinity in {lowered} of {pairs} of trained and random"
    lines = [f"{words} weights"] if len(told) else []

    def draw() -> Any:
        from analysis import figures

        return figures.training_chart(signatures)

    none = ["nothing was surveyed both trained and with random weights (--checkpoint init:0)"]
    asked.answer(table, None, lines or none, draw if lines else None)


def _distributions(asked: Asked, signatures: Any) -> None:
    from analysis.relations.distributions import UNIFORM, shapes

    table = shapes(signatures)
    high = int((table["bimodality_coefficient"] > UNIFORM).sum())
    dipped = int((table["dip_p"] <= 0.05).sum())
    told = (
        f"of {counted(len(table), 'model')} {high} have a bimodality coefficient above a uniform"
        f" distribution's {UNIFORM:.3f}; the dip test rejects one mode for {dipped} at 0.05,"
        " uncorrected"
    )

    def draw() -> Any:
        from analysis import figures

        return figures.distribution_chart(signatures, table)

    asked.answer(table, None, [told], draw)


_KINDS: Mapping[str, Callable[[Asked, Any], None]] = {
    "residual": _residual,
    "training": _training,
    "distributions": _distributions,
}

_WITH_UNTRAINED: Mapping[str, Callable[[Asked, Any, bool], None]] = {
    "twins": _twins,
    "checkpoints": _checkpoints,
}


def _range(values: Any) -> str:
    if values.nunique() == 1:
        return f"{values.iloc[0]:.2f}"
    return f"{values.min():.2f} to {values.max():.2f}, median {values.median():.2f}"


def _main_columns(table: Any) -> dict[str, str | None]:
    aside = ("source", "architecture", "family", "checkpoint", "dataset", "p")
    return {name: None for name in table.columns if name not in aside}


def _records(table: Any) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.to_dict("records")
    return rows
