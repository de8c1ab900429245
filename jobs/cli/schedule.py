"""``survey schedule``: surveys that run at given times."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from analysis.option_fields import option
from catalog.registry.policies import GRACE_SECONDS, LONGEST_GRACE_SECONDS, Missed, Overlap
from jobs.cli.consent import obtain_consent, recall_consent, trust_option
from jobs.cli.output import TableOptions
from jobs.cli.run import complain_of
from jobs.cli.survey_options import AllowOptions, OfflineOption
from jobs.cli.terminal import complain, say
from jobs.cli.verb import DEFAULT_HOME, SOME_FAILED, HomeOption, RegistryOption, verb
from jobs.runners.options import Limits, RunnerOptions
from survey.errors import ClusterError, StoreError

if TYPE_CHECKING:
    from catalog.registry.rows import Schedule
    from catalog.registry.schedules import Schedules
    from jobs.schedules.tick import Ran

schedule = typer.Typer(
    name="schedule",
    help="Run surveys at given times, such as every Monday; each run measures only what is new.",
    no_args_is_help=True,
    add_completion=False,
)


def _name() -> Any:
    return option(..., "Name of the schedule.", metavar="NAME", positional=True)


@schedule.command("add")
@verb
def add(
    *,
    name: str = _name(),
    file: Path = option(..., "Survey file.", metavar="FILE.toml", positional=True),
    cron: str = option(
        ..., "Due times: cron's five fields, minute hour day month weekday, or @daily, @weekly, ..."
    ),
    timezone: str = option("UTC", "Time zone of the due times, such as Europe/Paris."),
    missed: Missed = option(
        "latest", "Which missed due times are run later: the latest, all or none."
    ),
    overlap: Overlap = option(
        "skip", "Due time during an earlier run: skip or queue it, or replace that run."
    ),
    trust: bool = trust_option(),
    registry: RegistryOption = None,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Add a schedule. The file is read now; later changes to it have no effect.

    Sets and globs in the file, such as timm:*, are looked up at every run.
    """
    from jobs.planning.definition import read_definition
    from jobs.planning.plan import check
    from jobs.planning.user_models import without_unconsented
    from jobs.schedules.cron import new_entry
    from jobs.schedules.tables import coming_up

    definition = read_definition(file)
    entry = new_entry(
        name, definition, file, cron=cron, timezone=timezone, missed=missed, overlap=overlap
    )
    # Before consent is recalled: adding runs none of the user's code.
    check(without_unconsented(definition)[0], home)
    # Nobody can be asked when it is due.
    obtain_consent(definition, trust=trust)
    with _schedules(home, create=True, registry=registry) as schedules:
        schedule = schedules.add(entry, datetime.now(UTC))
    say(f"{name} is due next at {coming_up(schedule, datetime.now(UTC))[0]}")
    say("hint: let cron, systemd or Kubernetes run `survey schedule tick`")


@schedule.command("list")
@verb
def list_all(
    *,
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """List the schedules, with the next due time and the result of the last one."""
    from jobs.schedules.tables import schedules_table

    with _schedules(home) as schedules:
        table.write(schedules_table(schedules, datetime.now(UTC)))


@schedule.command("show")
@verb
def show(
    *,
    name: str = _name(),
    last: int = option(10, "Number of past due times to show.", minimum=1),
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Show one schedule: its survey, its next due times, and the results of the last ones."""
    from jobs.schedules.tables import TICK_HEADINGS, coming_up, facts, schedule_table, ticks_table

    now = datetime.now(UTC)
    with _schedules(home) as schedules:
        schedule = schedules.named(name)
        ticks = ticks_table([(schedule, each) for each in schedules.ticks(schedule, last)], now)
    if table.format != "table":
        table.write(schedule_table(schedule, ticks, now))
        return
    next_due = [("next due", moment) for moment in coming_up(schedule, now)]
    for label, value in (*facts(schedule).items(), *_declared(schedule), *next_due):
        say(f"{label:<9} {value}", err=False)
    if ticks.num_rows:
        say("", err=False)
        table.write(ticks, TICK_HEADINGS)


@schedule.command("pause")
@verb
def pause(*, name: str = _name(), home: HomeOption = DEFAULT_HOME) -> None:
    """Pause a schedule: no new run begins; a run in progress continues."""
    with _schedules(home) as schedules:
        paused = schedules.pause(schedules.named(name), datetime.now(UTC))
    say(f"{name} is paused" if paused else f"{name} was paused before")


@schedule.command("resume")
@verb
def resume(*, name: str = _name(), home: HomeOption = DEFAULT_HOME) -> None:
    """Resume a paused schedule. Due times during the pause do not count as missed."""
    with _schedules(home) as schedules:
        resumed = schedules.resume(schedules.named(name), datetime.now(UTC))
    say(f"{name} is resumed" if resumed else f"{name} was not paused")


@schedule.command("remove")
@verb
def remove(*, name: str = _name(), home: HomeOption = DEFAULT_HOME) -> None:
    """Remove a schedule and its history. What it measured stays."""
    from jobs.schedules.removal import remove_schedule

    with _schedules(home) as schedules:
        remove_schedule(schedules, name, datetime.now(UTC))
    say(f"{name} is removed")


@schedule.command("tick")
@verb
def tick(
    *,
    grace: float = option(
        GRACE_SECONDS,
        "Seconds after which a due time counts as missed; at least the time between two ticks.",
        minimum=0.0,
        maximum=LONGEST_GRACE_SECONDS,
    ),
    allow: AllowOptions,
    offline: OfflineOption = False,
    options: RunnerOptions,
    limits: Limits,
    home: HomeOption = DEFAULT_HOME,
    table: TableOptions,
) -> None:
    """Run what is due, each due time once, even if several processes do this at once.

    Meant to be called every minute by cron, systemd or Kubernetes. A run whose process died is
    continued where it stopped.
    """
    from catalog.open_home import open_home
    from jobs.cli.run import runner_of
    from jobs.scan.interruption import termination_interrupts
    from jobs.scan.progress_display import progress_reporter
    from jobs.schedules.claimed_run import Pace
    from jobs.schedules.tick import tick as carry_out_due

    folders = allow.folders()
    recall_consent()
    # Not made here: a mistyped home would otherwise have nothing due for ever.
    opened = open_home(home, create=False)

    with termination_interrupts(), progress_reporter() as reporter:
        ran = carry_out_due(
            opened,
            lambda: runner_of(options),
            reporter,
            offline=offline,
            limits=limits,
            pace=Pace(grace=grace),
            allowed=folders,
            leave_refused=True,
        )
    _report(ran, table)


def _report(ran: list[Ran], table: TableOptions) -> None:
    if ran or table.format != "table":
        from jobs.schedules.tables import TICK_HEADINGS, ticks_table

        ticks = ticks_table([(one.schedule, one.tick) for one in ran], datetime.now(UTC))
        table.write(ticks, TICK_HEADINGS)
    else:
        say("nothing is due")
    for one in ran:
        _complain(one)
    if any(
        isinstance(one.ended.left, (StoreError, ClusterError)) and not one.ended.busy for one in ran
    ):
        raise typer.Exit(StoreError.exit_code)
    if any(one.tick.state == "failed" for one in ran):
        raise typer.Exit(SOME_FAILED)


def _complain(one: Ran) -> None:
    name, ended = one.schedule.name, one.ended
    if ended.busy:
        say(f"{name} waits: another scan is writing to the home")
    elif ended.left:
        complain(f"{name} waits: {ended.left.message}", ended.left.hint)
    elif ended.outcome:
        complain_of(ended.outcome)
    elif one.tick.state == "failed":
        complain(f"{name}: {one.tick.reason}", ended.hint)


def _declared(schedule: Schedule) -> Iterator[tuple[str, str]]:
    from jobs.schedules.cron import definition_of

    definition = definition_of(schedule)
    for model in definition.models:
        checkpoints = ", ".join(each.ref for each in model.checkpoints)
        named = f"{model.name} with {checkpoints}" if checkpoints else model.name
        yield "model", f"{named}, labelled {model.label}" if model.label else named
        yield from (
            ("tag", f"{name} = {value} of {model.name}") for name, value in model.tags.items()
        )
    for dataset in definition.datasets:
        yield "dataset", dataset.full_name
    for name, value in definition.settings.to_dict().items():
        yield "setting", f"{name} = {'none' if value is None else value}"
    for name, value in definition.tags.items():
        yield "tag", f"{name} = {value}"


@contextmanager
def _schedules(
    home: Path, *, create: bool = False, registry: str | None = None
) -> Iterator[Schedules]:
    from catalog.open_home import open_home
    from catalog.registry.registry import Registry

    with Registry(open_home(home, create=create, registry_url=registry)) as opened:
        yield opened.schedules
