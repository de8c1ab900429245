"""``survey neighbours``: which signatures are nearest, and which are unlike any known family."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jobs.cli.run_filters import (
    Asked,
    BandOption,
    NormalisationOption,
    UntrainedOption,
    analysing,
)
from survey.errors import SettingsError
from survey.text import counted

#: Rows up to which a figure can be looked at whole.
MOST_ROWS = 200

_NEIGHBOURS = {
    **dict.fromkeys(("model", "family", "rank")),
    "other_model": "neighbour",
    "other_family": "its family",
    "distance": None,
}
_PREDICTIONS = dict.fromkeys(
    ("model", "family", "predicted", "right", "nearest_model", "distance", "reason")
)
_NOVELTY = dict.fromkeys(
    ("model", "family", "novelty", "nearest_family", "nearest_model", "distance")
)


@analysing
def neighbours(
    asked: Asked,
    name: Annotated[
        str | None,
        typer.Argument(metavar="[MODEL]", help="A model's label or run id.", show_default=False),
    ] = None,
    number: Annotated[
        int | None,
        typer.Option("--number", "-n", min=1, help="Of MODEL, or each.  [default: 5, or 1]"),
    ] = None,
    families: Annotated[
        bool, typer.Option("--families", help="Predict each family, leaving the model out.")
    ] = False,
    novelty: Annotated[
        bool, typer.Option("--novelty", help="Rank models unlike any known family.")
    ] = False,
    normalisation: NormalisationOption = "raw",
    band: BandOption = None,
    untrained: UntrainedOption = False,
) -> None:
    """Say which models have the nearest signatures, by dynamic time warping.

    With --families, how often the nearest architecture is of the same family.
    """
    from analysis.similarity.distances import distance_matrix

    if families + novelty + (name is not None) > 1:
        raise SettingsError("MODEL, --families and --novelty exclude each other")
    if untrained and not (families or novelty):
        raise SettingsError(
            "--untrained goes with --families and --novelty", hint="leave it out, or add one"
        )
    matrix = distance_matrix(asked.signatures(), normalisation, band)
    if families:
        _predicted(asked, matrix, number or 1, untrained=untrained)
    elif novelty:
        _ranked(asked, matrix, untrained=untrained)
    else:
        _nearest(asked, matrix, name, number or (5 if name else 1))


def _nearest(asked: Asked, matrix: Any, name: str | None, number: int) -> None:
    from analysis.similarity.neighbours import neighbours

    table = neighbours(matrix, name, number)
    first = table[table["rank"] == 1]
    known = first[first["family"].notna() & first["other_family"].notna()]
    same = int((known["family"] == known["other_family"]).sum())
    told = f"the nearest of {same} of {counted(len(known), 'model')} is of their own family"
    if first.empty:
        told = f"there is no other model than {matrix.runs['model'].iloc[0]}"
    elif name is not None:
        row = first.iloc[0]
        told = f"nearest to {row['model']}: {row['other_model']}, distance {row['distance']:.4f}"

    def draw() -> Any:
        from analysis import figures

        return figures.neighbour_chart(table)

    summary = [f"{told} ({matrix.normalisation} distances)"]
    if asked.figure is not None and len(table) > MOST_ROWS:
        rows = counted(len(table), "row")
        summary.append(f"note: the figure has {rows}: --family and other filters narrow it")
    asked.answer(table, _NEIGHBOURS, summary, draw)


def _predicted(asked: Asked, matrix: Any, number: int, *, untrained: bool) -> None:
    from analysis.similarity.neighbours import family_predictions, share_words

    table = family_predictions(matrix, number, untrained=untrained)
    known = table["right"].dropna()
    told, rest = f"no model's family can be predicted (n = {len(table)})", ""
    if len(known):
        right, share = int(known.sum()), share_words(table)
        told = f"leave-one-out: {right} of {len(known)} families right ({share})"
        left = int(table["predicted"].isna().sum())
        random = len(table) - len(known) - left
        rest = f", {left} cannot be predicted" if left else ""
        rest += f", {random} of random weights not counted" if random else ""

    def draw() -> Any:
        from analysis import figures

        return figures.prediction_chart(table)

    asked.answer(table, _PREDICTIONS, [f"{told}{rest} ({matrix.normalisation} distances)"], draw)


def _ranked(asked: Asked, matrix: Any, *, untrained: bool) -> None:
    from analysis.similarity.neighbours import novelty

    table = novelty(matrix, untrained=untrained)
    top = table.dropna(subset="novelty").head(1).to_dict("records")
    told = [
        f"most unlike any known family: {row['model']}, novelty {row['novelty']:.2f},"
        f" nearest {row['nearest_model']}"
        for row in top
    ]

    def draw() -> Any:
        from analysis import figures

        return figures.novelty_chart(table, most=MOST_ROWS)

    told = told or ["no model has a novelty"]
    if asked.figure is not None and table["novelty"].count() > MOST_ROWS:
        told.append(f"note: the figure shows the {MOST_ROWS} most unlike")
    asked.answer(table, _NOVELTY, told, draw)
