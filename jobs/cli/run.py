"""``survey run``: measure what is declared and not measured yet."""

from __future__ import annotations

import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from jobs.cli.consent import obtain_consent, trust_option
from jobs.cli.output import TableOptions
from jobs.cli.server import ServerOptions, run_there
from jobs.cli.survey_options import OfflineOption, SurveyOptions
from jobs.cli.terminal import complain, say
from jobs.cli.verb import DEFAULT_HOME, REGISTRY, SOME_FAILED, HomeOption, RegistryOption, verb
from jobs.runners.options import Limits, RunnerOptions
from survey.text import first_lines

if TYPE_CHECKING:
    from jobs.planning.definition import Definition
    from jobs.run import Outcome
    from jobs.runners.base import Runner


@partial(verb, interrupted="finished batches are kept: run the same command again to go on")
def run(
    *,
    survey: SurveyOptions,
    offline: OfflineOption = False,
    trust: bool = trust_option(),
    options: RunnerOptions,
    limits: Limits,
    registry: RegistryOption = None,
    server: ServerOptions,
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Measure what a survey declares and the home does not hold yet.

    Running the same command again goes on where it stopped and repeats nothing.
    """
    from jobs.planning.targets import require_names

    definition = survey.definition()
    # The environment's registry is for the homes of this machine.
    other = registry != os.environ.get(REGISTRY)
    own = {"offline": offline, "trust": trust, "registry": registry and other}
    if (client := server.client(options, limits, **own)) is not None:
        raise typer.Exit(run_there(client, definition, table))
    obtain_consent(definition, trust=trust)
    require_names(definition)
    runner = runner_of(options)
    outcome = carry_out(home, definition, runner, offline=offline, limits=limits, registry=registry)
    report(home, outcome, table)
    if not outcome.complete:
        raise typer.Exit(SOME_FAILED)


def runner_of(options: RunnerOptions) -> Runner:
    """Return the runner of some options; the threads of workers here keep to the environment."""
    from jobs.runners import make_runner

    # Levels of nested threads stand apart by commas.
    allowed = os.environ.get("OMP_NUM_THREADS", "").partition(",")[0].strip()
    # On a cluster the workers' environment is another; of a job's driver Ray sets it by itself.
    if allowed.isdecimal() and int(allowed) and not (options.threads or options.address):
        options = replace(options, most_threads=int(allowed))
    return make_runner(options)


def carry_out(
    home: Path,
    definition: Definition,
    runner: Runner,
    *,
    offline: bool = False,
    limits: Limits | None = None,
    registry: str | None = None,
) -> Outcome:
    """Run a survey with progress on standard error."""
    from catalog.open_home import open_home
    from jobs.planning.plan import check
    from jobs.run import run_survey
    from jobs.scan.interruption import termination_interrupts
    from jobs.scan.progress_display import progress_reporter

    check(definition, home)
    with termination_interrupts(), progress_reporter() as display:
        opened = open_home(home, create=True, registry_url=registry)
        return run_survey(opened, definition, runner, display, offline=offline, limits=limits)


def report(home: Path, outcome: Outcome, table: TableOptions) -> None:
    """Write the result of each job, flags, the jobs that were not precise enough, every failure."""
    from catalog.open_home import open_home
    from catalog.store.queries import signatures_overview
    from catalog.store.reader import run_row
    from jobs.operations.flags import flag_lines
    from jobs.operations.show import precision_line, reached

    opened = open_home(home, create=False)
    runs = [job.run_id for job in outcome.plan.jobs]
    table.write_runs(signatures_overview(opened), runs)
    say(*flag_lines(opened, runs))
    for job in outcome.done:
        if job.settings.precision is not None and not reached(row := run_row(opened, job.run_id)):
            say(f"not precise enough: {job.title}: {precision_line(opened, row)}")
    complain_of(outcome)


def complain_of(outcome: Outcome) -> None:
    """Write the reasons of failed jobs and of files that could not be fetched."""
    for job, failure in outcome.failed:
        complain(f"{job.title}: {failure.stage}: {failure.message}", failure.hint)
    listed = "survey status lists them"
    parked = [
        f"parked, since it lost too many workers: {job.title}; survey log {job.run_id} shows why,"
        f" survey retry {job.run_id} tries again"
        for job in outcome.parked
    ]
    for line in first_lines(parked, f"more jobs are parked; {listed}"):
        complain(line, None)
    cancelled = [
        f"cancelled: {job.title}; survey retry {job.run_id} takes it up again"
        for job in (*outcome.cancelled, *outcome.plan.held_as("cancelled"))
    ]
    say(*first_lines(cancelled, f"more jobs are cancelled; {listed}"))
    for problem in outcome.unfetched:
        complain(problem.message, problem.hint)
