"""The options that say what to measure, shared by ``run`` and ``plan``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from jobs.definition import Definition

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


def definition_of(
    file: Path | None,
    models: list[str] | None,
    checkpoints: list[str] | None,
    datasets: list[str] | None,
    settings: dict[str, Any],
    *,
    limit: int | None = None,
    stratified: bool = False,
    order_seed: int | None = None,
    remeasure: list[str] | None = None,
    expect_top1: float | None = None,
) -> Definition:
    """Build the survey that a file or the options declare.

    Parameters
    ----------
    file : pathlib.Path or None
        A survey file; excludes the three that follow.
    models, checkpoints, datasets : list of str or None
        Names; every model is measured with every checkpoint on every dataset.
    settings : dict
        Settings by name; None where not given. They win over the file's.
    limit : int, optional
        Images of each dataset named.
    stratified : bool
        Whether a limit takes equally many of every class.
    order_seed : int, optional
        Seed of the order of each dataset's images.
    remeasure : list of str, optional
        Libraries of which another version means measuring again; beside the file's.
    expect_top1 : float, optional
        The accuracy every model named should show.

    Raises
    ------
    SettingsError
        If neither or both are given, or what they hold is not allowed.
    """
    from jobs.definition import DEFAULT_DATASET, parse_definition, read_definition
    from survey import SettingsError

    given = {name: value for name, value in settings.items() if value is not None}
    if file is not None:
        numbers = (limit, order_seed, expect_top1)
        if any((models, checkpoints, datasets, stratified)) or set(numbers) != {None}:
            raise SettingsError(
                "a survey file excludes --model, --checkpoint, --dataset, --limit, --stratified,"
                " --order-seed and --expect-top1",
                hint="put them into the file, or leave the file out",
            )
        return read_definition(file, given, remeasure or ())
    if not models:
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
        "models": [{"name": name, "checkpoints": checkpoints or [], **expected} for name in models],
        "datasets": [{"name": name, **selection} for name in datasets or [DEFAULT_DATASET]],
    }
    return parse_definition(values, "command line", Path(), given, remeasure or ())
