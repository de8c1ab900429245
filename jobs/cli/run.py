"""``survey run``: measure what is declared and not measured yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.cli.app import (
    SOME_FAILED,
    FormatOption,
    HomeOption,
    app,
    chosen_format,
    chosen_home,
    complain,
    guarded,
)
from jobs.cli.selection import (
    BatchSizeOption,
    CheckpointOption,
    DatasetOption,
    ExpectOption,
    FileArgument,
    LimitOption,
    MicroBatchOption,
    ModelOption,
    OfflineOption,
    PoolingOption,
    RidgeOption,
    ShrinkageOption,
    StratifiedOption,
    definition_of,
)
from jobs.words import DeviceChoice, Format, RunnerChoice

if TYPE_CHECKING:
    from jobs.definition import Definition
    from jobs.run import Outcome
    from jobs.runner import Runner

RunnerOption = Annotated[
    RunnerChoice, typer.Option("--runner", help="Ray actors, or this process alone.")
]
DeviceOption = Annotated[DeviceChoice, typer.Option("--device", help="What workers compute on.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="How many.  [default: one a GPU, else one]")
]
AddressOption = Annotated[
    str | None,
    typer.Option("--address", help="An existing Ray cluster.  [default: a local Ray of its own]"),
]


@app.command("run")
@guarded
def run(
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
    expect_top1: ExpectOption = None,
    offline: OfflineOption = False,
    runner: RunnerOption = "ray",
    workers: WorkersOption = None,
    device: DeviceOption = "auto",
    address: AddressOption = None,
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """Measure what a survey declares and the home does not hold yet.

    Running the same command again goes on where it stopped and repeats nothing.
    """
    settings = {
        "images_per_score": batch_size,
        "micro_batch": micro_batch,
        "shrinkage": shrinkage,
        "ridge": ridge,
        "pooling": pooling,
    }
    definition = definition_of(
        file,
        model,
        checkpoint,
        dataset,
        settings,
        limit=limit,
        stratified=stratified,
        expect_top1=expect_top1,
    )
    chosen = make_runner(runner, device, workers, address)
    outcome = carry_out(chosen_home(context, home), definition, chosen, offline=offline)
    report(chosen_home(context, home), outcome, chosen_format(context, format))
    if outcome.failed or outcome.unfetched:
        raise typer.Exit(SOME_FAILED)


def make_runner(
    kind: RunnerChoice, device: DeviceChoice, workers: int | None, address: str | None
) -> Runner:
    """Build the runner the options name."""
    from survey import SettingsError

    if kind == "local":
        if address is not None or workers not in (None, 1):
            raise SettingsError(
                "--runner local has one worker and takes no --address",
                hint="leave --workers and --address out, or use --runner ray",
            )
        from jobs.local import LocalRunner

        return LocalRunner(device)
    from jobs.ray_runner import RayRunner

    return RayRunner(device, workers, address)


def carry_out(
    home: Path, definition: Definition, runner: Runner, *, offline: bool = False
) -> Outcome:
    """Run a survey with progress on standard error."""
    from catalog.home import Home
    from jobs.plan import check, plain_holdings
    from jobs.progress import progress_reporter
    from jobs.run import run_survey
    from jobs.signals import termination_interrupts

    check(definition, plain_holdings(home))
    with termination_interrupts(), progress_reporter() as reporter:
        opened = Home.open(home, create=True)
        return run_survey(opened, definition, runner, reporter, offline=offline)


def report(home: Path, outcome: Outcome, format: Format) -> None:  # noqa: A002
    """Write what became of each job, and every failure with its hint."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from catalog.home import Home
    from catalog.queries import signatures_overview
    from jobs.cli.output import emit

    runs = pa.array([job.run_id for job in outcome.plan.jobs], pa.string())
    overview = signatures_overview(Home.open(home, create=False))
    emit(overview.filter(pc.is_in(overview["run_id"], runs)), format)
    for job, failure in outcome.failed:
        complain(f"{job.title}: {failure.stage}: {failure.message}", failure.hint)
    for problem in outcome.unfetched:
        complain(problem.message, problem.hint)
