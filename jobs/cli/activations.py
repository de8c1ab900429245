"""``survey activations``: the papers' studies of activation functions, as tables and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from analysis.studies.catalogue import STUDIES
from analysis.studies.catalogue import study as find_study
from jobs.cli.app import FormatOption, app, chosen_format, guarded
from survey.text import counted

_HELP = (
    "Run one study of activation functions and write its table.\n\nThe studies:\n\n"
    + "\n\n".join(f"{each.name}: {each.sentence}" for each in STUDIES)
)

_SEVERAL = "May be given several times."


def _several(name: str, text: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(
        name, help=f"{text} {_SEVERAL}", show_default=False
    )
    return option


@app.command("activations", help=_HELP)
@guarded
def activations(
    context: typer.Context,
    study: Annotated[str, typer.Argument(help="Which study; they are listed above.")],
    activation: Annotated[
        list[str] | None, _several("--activation", "A name in torch.nn.functional.")
    ] = None,
    mean: Annotated[list[float] | None, _several("--mean", "Mean of a sample.")] = None,
    deviation: Annotated[
        list[float] | None, _several("--deviation", "Deviation of a sample.")
    ] = None,
    degree: Annotated[list[int] | None, _several("--degree", "Degree of a power.")] = None,
    scale: Annotated[
        list[float] | None, _several("--scale", "Scale of a perceptron's weights.")
    ] = None,
    n: Annotated[
        int | None, typer.Option("--n", help="Points in a sample.", show_default=False)
    ] = None,
    d: Annotated[
        list[int] | None, _several("--d", "Dimension of a sample, or channels of a tensor.")
    ] = None,
    seed: Annotated[list[int] | None, _several("--seed", "Seed.")] = None,
    model: Annotated[list[str] | None, _several("--model", "A bundled network.")] = None,
    dataset: Annotated[
        str | None, typer.Option("--dataset", help="As for survey run.", show_default=False)
    ] = None,
    batch_size: Annotated[list[int] | None, _several("--batch-size", "Images in a score.")] = None,
    figure: Annotated[
        Path | None,
        typer.Option("--figure", help="Draw an .svg, .png or .html file.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write to a file.", show_default=False)
    ] = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """Run one study; `--help` shows ``_HELP``, which names them all."""
    import pyarrow as pa

    from analysis.figures.export import require_drawable, save
    from jobs.cli.output import emit

    chosen = find_study(study)
    if figure is not None:
        require_drawable(figure)
    given = {
        "activation": activation,
        "mean": mean,
        "deviation": deviation,
        "degree": degree,
        "scale": scale,
        "n": None if n is None else [n],
        "d": d,
        "seed": seed,
        "model": model,
        "dataset": None if dataset is None else [dataset],
        "batch-size": batch_size,
    }
    table = chosen.run(lambda sentence: typer.echo(sentence, err=True), **given)
    emit(
        pa.Table.from_pandas(table, preserve_index=False).replace_schema_metadata(None),
        chosen_format(context, format, output),
        output,
    )
    if output is not None:
        typer.echo(f"{counted(len(table), 'row')} written to {output}", err=True)
    if figure is not None:
        save(chosen.draw(table), figure)
        typer.echo(f"figure written to {figure}", err=True)
