"""``survey run``: measure what is declared and not measured yet."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from jobs.choices import DeviceChoice, Format
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
from jobs.cli.survey_options import OfflineOption, declares

if TYPE_CHECKING:
    from jobs.planning.definition import Definition
    from jobs.run import Outcome
    from jobs.runners.base import Runner
    from jobs.runners.options import Limits

RunnerOption = Annotated[str, typer.Option("--runner", help="ray, local or an installed runner.")]
DeviceOption = Annotated[DeviceChoice, typer.Option("--device", help="What workers compute on.")]
WorkersOption = Annotated[
    int | None, typer.Option("--workers", help="How many.  [default: one a GPU, else one]")
]
ShareOption = Annotated[
    float, typer.Option("--gpus-per-worker", help="The part of a GPU each worker gets.")
]
ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", help="Of each worker.  [default: its part of the machine's cores]"),
]
DeadlineOption = Annotated[
    float | None, typer.Option("--deadline", help="Seconds an attempt at a job may take.")
]
LossesOption = Annotated[
    int, typer.Option("--losses", help="Workers a job may lose in a row before it is parked.")
]
StallOption = Annotated[
    float, typer.Option("--stall", help="Seconds a worker may do nothing before it is replaced.")
]
SplitOption = Annotated[
    bool, typer.Option("--split/--no-split", help="Spread long jobs over several workers.")
]
AllowCpuOption = Annotated[
    bool,
    typer.Option(
        "--allow-cpu-for-gpu", help="Compute on the CPU where torch does not see Ray's GPU."
    ),
]
InsecureOption = Annotated[
    bool,
    typer.Option("--insecure", help="Join a cluster on the network that asks nobody for a token."),
]
AddressOption = Annotated[
    str | None,
    typer.Option(
        "--address", help="HOST:PORT of an existing Ray cluster, or auto.  [default: a local Ray]"
    ),
]


@app.command("run")
@guarded
@declares
def run(
    context: typer.Context,
    definition: Definition,
    offline: OfflineOption = False,
    runner: RunnerOption = "ray",
    workers: WorkersOption = None,
    device: DeviceOption = "auto",
    gpus_per_worker: ShareOption = 1.0,
    threads: ThreadsOption = None,
    address: AddressOption = None,
    insecure: InsecureOption = False,
    deadline: DeadlineOption = None,
    losses: LossesOption = 3,
    stall: StallOption = 900.0,
    split: SplitOption = True,
    allow_cpu_for_gpu: AllowCpuOption = False,
    home: HomeOption = None,
    format: FormatOption = None,  # noqa: A002
) -> None:
    """Measure what a survey declares and the home does not hold yet.

    Running the same command again goes on where it stopped and repeats nothing.
    """
    from jobs.runners import make_runner
    from jobs.runners.options import Limits, RunnerOptions

    options = RunnerOptions(
        runner=runner,
        device=device,
        workers=workers,
        gpus_per_worker=gpus_per_worker,
        threads=threads,
        address=address,
        insecure=insecure,
        stall=stall,
        allow_cpu_for_gpu=allow_cpu_for_gpu,
    )
    chosen, limits = make_runner(options), Limits(deadline, losses, split)
    outcome = carry_out(
        chosen_home(context, home), definition, chosen, offline=offline, limits=limits
    )
    report(chosen_home(context, home), outcome, chosen_format(context, format))
    if outcome.failed or outcome.unfetched:
        raise typer.Exit(SOME_FAILED)


def carry_out(
    home: Path,
    definition: Definition,
    runner: Runner,
    *,
    offline: bool = False,
    limits: Limits | None = None,
) -> Outcome:
    """Run a survey with progress on standard error."""
    from catalog.home import Home
    from jobs.cli.signals import termination_interrupts
    from jobs.planning.plan import check, plain_holdings
    from jobs.run import run_survey
    from jobs.scan.progress_display import progress_reporter

    check(definition, plain_holdings(home))
    with termination_interrupts(), progress_reporter() as reporter:
        opened = Home.open(home, create=True)
        return run_survey(opened, definition, runner, reporter, offline=offline, limits=limits)


def report(home: Path, outcome: Outcome, format: Format) -> None:  # noqa: A002
    """Write what became of each job, and every failure with its hint."""
    import pyarrow as pa
    import pyarrow.compute as pc

    from catalog.home import Home
    from catalog.store.queries import signatures_overview
    from jobs.cli.output import emit

    runs = pa.array([job.run_id for job in outcome.plan.jobs], pa.string())
    overview = signatures_overview(Home.open(home, create=False))
    emit(overview.filter(pc.is_in(overview["run_id"], runs)), format)
    _tell_precision(home, outcome)
    complain_of(outcome)


def complain_of(outcome: Outcome) -> None:
    """Say why jobs failed and files could not be fetched."""
    for job, failure in outcome.failed:
        complain(f"{job.title}: {failure.stage}: {failure.message}", failure.hint)
    for problem in outcome.unfetched:
        complain(problem.message, problem.hint)


def _tell_precision(home: Path, outcome: Outcome) -> None:
    """Say which runs ended before they were as precise as was wanted."""
    from catalog.home import Home
    from catalog.store.reader import run_row
    from jobs.operations.show import precision_line, reached

    opened = Home.open(home, create=False)
    wanting = [job for job in outcome.done if job.settings.precision is not None]
    for job, run in ((job, run_row(opened, job.run_id)) for job in wanting):
        if not reached(run):
            typer.echo(f"not precise enough: {job.title}: {precision_line(run)}", err=True)
