"""The options that say what to measure, shared by ``run``, ``plan`` and ``fetch``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from jobs.planning.definition import Definition

FileArgument = Annotated[
    Path | None, typer.Argument(metavar="[FILE.toml]", help="A survey file.", show_default=False)
]
ModelOption = Annotated[
    list[str] | None,
    typer.Option("--model", "-m", help="Architecture, published weights, a glob or a set."),
]
CheckpointOption = Annotated[
    list[str] | None,
    typer.Option("--checkpoint", "-c", help="bundled, default, init:SEED, file:PATH or a tag."),
]
DatasetOption = Annotated[
    list[str] | None,
    typer.Option("--dataset", "-d", help="digits, folder:PATH, imagenet, ...: survey datasets."),
]
BatchSizeOption = Annotated[
    int | None, typer.Option("--batch-size", help="Images in one score.  [default: 512]")
]
MicroBatchOption = Annotated[
    int | None, typer.Option("--micro-batch", help="Images in one forward pass.  [default: 64]")
]
ShrinkageOption = Annotated[
    str | None, typer.Option("--shrinkage", help="ledoit-wolf or none.  [default: ledoit-wolf]")
]
RidgeOption = Annotated[
    str | None, typer.Option("--ridge", help="absolute or relative.  [default: absolute]")
]
PoolingOption = Annotated[
    str | None,
    typer.Option("--pooling", help="mean, pre, sum, flatten or public_code.  [default: mean]"),
]
PrecisionOption = Annotated[
    float | None,
    typer.Option(
        "--precision", help="Stop a job once every site's standard error is at most this."
    ),
]
LeastBatchesOption = Annotated[
    int | None,
    typer.Option("--least-batches", help="Batches before a precision counts.  [default: 8]"),
]
LimitOption = Annotated[
    int | None, typer.Option("--limit", help="Images of each dataset.  [default: all]")
]
StratifiedOption = Annotated[
    bool, typer.Option("--stratified", help="With --limit: equally many of every class.")
]
OrderSeedOption = Annotated[
    int | None,
    typer.Option("--order-seed", help="Of the order of images.  [default: the dataset's own, 0]"),
]
RemeasureOption = Annotated[
    list[str] | None,
    typer.Option("--remeasure", help="Measure again with another version of this library."),
]
ExpectOption = Annotated[
    float | None,
    typer.Option("--expect-top1", help="Mark runs suspect that differ from this accuracy."),
]
OfflineOption = Annotated[
    bool, typer.Option("--offline", help="Fetch nothing; say what is lacking and where to put it.")
]


def declares(
    verb: Callable[..., None],
) -> Callable[..., None]:
    """Give a verb the options that declare a survey, in place of the survey that it takes.

    Parameters
    ----------
    verb : callable
        Takes the context, the survey, and then options of its own.
    """
    # A survey is imported only where one is built; typer needs no more than the options.
    names = {"Definition": object}
    options = inspect.signature(definition_of, eval_str=True, locals=names).parameters
    first, _, *own = inspect.signature(verb, eval_str=True, locals=names).parameters.values()
    shown = [first, *options.values(), *own]

    def run(context: typer.Context, **given: Any) -> None:
        declared = {name: given.pop(name) for name in options}
        verb(context, definition_of(**declared), **given)

    functools.update_wrapper(run, verb)
    run.__annotations__ = {one.name: one.annotation for one in shown}
    vars(run)["__signature__"] = inspect.Signature(shown)
    return run


def definition_of(
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
    expect_top1: ExpectOption = None,
) -> Definition:
    """Build the survey that a file or the options declare.

    Every model named is measured with every checkpoint on every dataset. A file excludes the names
    and what belongs to them; settings win over its own, and libraries stand beside its own.

    Raises
    ------
    SettingsError
        If neither or both are given, or what they hold is not allowed.
    """
    from jobs.planning.definition import DEFAULT_DATASET, parse_definition, read_definition
    from survey import SettingsError

    settings = {
        "images_per_score": batch_size,
        "micro_batch": micro_batch,
        "shrinkage": shrinkage,
        "ridge": ridge,
        "pooling": pooling,
        "precision": precision,
        "least_batches": least_batches,
    }
    given = {name: value for name, value in settings.items() if value is not None}
    if file is not None:
        numbers = (limit, order_seed, expect_top1)
        if any((model, checkpoint, dataset, stratified)) or set(numbers) != {None}:
            raise SettingsError(
                "a survey file excludes --model, --checkpoint, --dataset, --limit, --stratified,"
                " --order-seed and --expect-top1",
                hint="put them into the file, or leave the file out",
            )
        return read_definition(file, given, remeasure or ())
    if not model:
        raise SettingsError(
            "nothing to measure was named",
            hint="name a survey file, or pass --model, e.g. --model 'small:digits_*'",
        )
    expected = {} if expect_top1 is None else {"expect_top1": expect_top1}
    parts = {"limit": limit, "order_seed": order_seed}
    selection = {"stratified": stratified} | {
        name: number for name, number in parts.items() if number is not None
    }
    values = {
        "models": [{"name": name, "checkpoints": checkpoint or [], **expected} for name in model],
        "datasets": [{"name": name, **selection} for name in dataset or [DEFAULT_DATASET]],
    }
    return parse_definition(values, "command line", Path(), given, remeasure or ())
