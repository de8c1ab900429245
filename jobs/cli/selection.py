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
    typer.Option("--model", "-m", help="Architecture or glob, such as 'small:digits_*'."),
]
CheckpointOption = Annotated[
    list[str] | None,
    typer.Option("--checkpoint", "-c", help="bundled, init:SEED or file:PATH."),
]
DatasetOption = Annotated[
    list[str] | None,
    typer.Option("--dataset", "-d", help="digits, folder:PATH or random."),
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


def definition_of(
    file: Path | None,
    models: list[str] | None,
    checkpoints: list[str] | None,
    datasets: list[str] | None,
    settings: dict[str, Any],
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

    Raises
    ------
    SettingsError
        If neither or both are given, or what they hold is not allowed.
    """
    from jobs.definition import parse_definition, read_definition
    from survey import SettingsError

    given = {name: value for name, value in settings.items() if value is not None}
    if file is not None:
        if models or checkpoints or datasets:
            raise SettingsError(
                "a survey file and --model, --checkpoint or --dataset exclude each other",
                hint="put the models into the file, or leave the file out",
            )
        return read_definition(file, given)
    if not models:
        raise SettingsError(
            "nothing to measure was named",
            hint="name a survey file, or pass --model, e.g. --model 'small:digits_*'",
        )
    values = {
        "models": [{"name": name, "checkpoints": checkpoints or []} for name in models],
        "datasets": [{"name": name} for name in datasets or []],
    }
    return parse_definition(values, "command line", Path(), given)
