"""``survey regress``: what of a signature explains accuracy, and how much of that is picking."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from jobs.choices import AccuracyChoice
from jobs.cli.run_filters import Asked, ComparePaperOption, analysing

_TABLE = {
    **dict.fromkeys(("group", "dataset", "kind", "predictor", "n", "r2", "r2_left_out", "slope")),
    "p": None,
    "p_picked": "p as picked",
    "reason": None,
}


@analysing
def regress(
    asked: Asked,
    permutations: Annotated[
        int, typer.Option("--permutations", help="Orders drawn where not all are tried.")
    ] = 9999,
    seed: Annotated[int, typer.Option("--seed", help="Of the drawing.")] = 0,
    all_predictors: Annotated[
        bool, typer.Option("--all", help="Every predictor, not only the best of each kind.")
    ] = False,
    accuracy: Annotated[
        AccuracyChoice, typer.Option("--accuracy", help="Which top-1, where both are known.")
    ] = "measured",
    compare_paper: ComparePaperOption = False,
) -> None:
    """Regress top-1 accuracy on statistics of the signature, within each group of families.

    Beside each best predictor stands the chance of one as good among as many, had accuracy nothing
    to do with the signature.
    """
    from analysis.relations.accuracy_spread import accuracy_spread, chance_words
    from analysis.relations.regression import LEAST_MODELS, regressions

    signatures = asked.signatures()
    if compare_paper:
        from jobs.cli.compare import answer_paper

        answer_paper(asked, signatures, ("fig4",))
        return
    models = asked.models()
    found = regressions(signatures, models, permutations, seed, accuracy)
    table = found if all_predictors else _picked(found)

    def draw() -> Any:
        from analysis import figures

        return figures.regression_chart(found, signatures, models, accuracy)

    # How surely a published accuracy is known is not recorded.
    known = models[models["run_id"].isin(signatures["run_id"])] if accuracy == "measured" else None
    chance = [] if known is None else chance_words(accuracy_spread(known), LEAST_MODELS)
    asked.answer(table, _TABLE, [*_best(found), *chance], draw)


def _picked(found: Any) -> Any:
    """Return the best predictor of each kind; where none could be fitted, why."""
    ranked = found.sort_values("picked", ascending=False, kind="stable")
    table = ranked.drop_duplicates(["group", "dataset", "kind"]).sort_index()
    # The reason is that of the first of the kind, and much the same for the others.
    table.loc[~table["picked"], "predictor"] = ""
    return table.reset_index(drop=True)


def _best(found: Any) -> list[str]:
    best = found[found["picked"] & (found["kind"] == "signature")].to_dict("records")
    lines = [
        f"{row['group']} on {row['dataset']}: best of its signature is {row['predictor']},"
        f" R2 {row['r2']:.2f}, left out {row['r2_left_out']:.2f}, n {row['n']}"
        f" (top-1: {row['accuracy']}),"
        f" p {row['p_picked']:.3g} with the picking, {row['p']:.3g} without"
        for row in best
    ]
    return lines or ["no group has enough models with an accuracy and a signature"]
