"""``survey plan``: what would run, what is done, and how long it may take. Runs nothing."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from jobs.cli.app import FormatOption, HomeOption, app, chosen_format, chosen_home, guarded
from jobs.cli.selection import (
    BatchSizeOption,
    CheckpointOption,
    DatasetOption,
    FileArgument,
    LeastBatchesOption,
    LimitOption,
    MicroBatchOption,
    ModelOption,
    OrderSeedOption,
    PoolingOption,
    PrecisionOption,
    RemeasureOption,
    RidgeOption,
    ShrinkageOption,
    StratifiedOption,
    definition_of,
)


@app.command("plan")
@guarded
def plan(
    context: typer.Context,
    file: FileArgument = None,
    model: ModelOption = None,
    checkpoint: CheckpointOption = None,
    dataset: DatasetOption = None,
    batch_size: BatchSizeOption = None,
    micro_batch: MicroBatchOption = None,
    shrinkage: ShrinkageOption = None,
    ridge: RidgeOption = None,
    pooling: PoolingOption = None,
    limit: LimitOption = None,
    stratified: StratifiedOption = False,
    order_seed: OrderSeedOption = None,
    precision: PrecisionOption = None,
    least_batches: LeastBatchesOption = None,
    remeasure: RemeasureOption = None,
    workers: Annotated[int, typer.Option("--workers", help="How many there will be.")] = 1,
    device: Annotated[
        Literal["cpu", "cuda"], typer.Option("--device", help="What they compute on.")
    ] = "cpu",
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """Show what a survey would measure, what is done already, and an estimate."""
    from jobs.cli.output import emit
    from jobs.forecast import forecast

    settings = {
        "images_per_score": batch_size,
        "micro_batch": micro_batch,
        "shrinkage": shrinkage,
        "ridge": ridge,
        "pooling": pooling,
        "precision": precision,
        "least_batches": least_batches,
    }
    definition = definition_of(
        file,
        model,
        checkpoint,
        dataset,
        settings,
        limit=limit,
        stratified=stratified,
        order_seed=order_seed,
        remeasure=remeasure,
    )
    foreseen = forecast(chosen_home(context, home), definition, device=device, workers=workers)
    emit(foreseen.table(), chosen_format(context, format))
    typer.echo(foreseen.summary(), err=True)
