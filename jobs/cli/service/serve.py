"""``survey serve``: the service, until it is told to stop."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.option_fields import option
from catalog.registry.policies import GRACE_SECONDS, LONGEST_GRACE_SECONDS
from jobs.cli.consent import recall_consent
from jobs.cli.run import runner_of
from jobs.cli.secret_file import secret_in
from jobs.cli.survey_options import AllowOptions, OfflineOption
from jobs.cli.terminal import complain, make_streams_safe, say
from jobs.cli.verb import DEFAULT_HOME, HomeOption, RegistryOption, verb
from jobs.runners.options import Limits, RunnerOptions
from jobs.scan.interruption import termination_interrupts
from jobs.service.settings import NICENESS, PORT, ServiceSettings, SqlLimits
from survey.errors import SettingsError, SurveyError

if TYPE_CHECKING:
    from jobs.service.driver import DriverSettings
    from jobs.service.receivers import Receiver

#: The variable with the secret that webhooks are signed with, where no file is named.
SECRET = "SURVEY_WEBHOOK_SECRET"  # noqa: S105 - its name alone


@dataclass(frozen=True, slots=True)
class NoticeOptions:
    """Who is sent events, and how they are signed."""

    webhook: list[str] | None = option(
        None, "Address that every event is posted to, signed; may be repeated.", metavar="URL"
    )
    webhook_secret: Path | None = option(
        None,
        "File with the secret that webhooks are signed with.",
        metavar="FILE",
        none=f"${SECRET}",
    )
    on_drift: str | None = option(
        None,
        "Program with arguments that is run on drift, without a shell; the event is its input.",
        metavar="CMD",
    )

    def receivers(self) -> tuple[Receiver, ...]:
        """Return who is sent events.

        Raises
        ------
        SettingsError
            If an address, the command or the secret cannot be used.
        """
        from jobs.service.receivers import DriftCommand, Webhook

        secret = self._secret() if self.webhook else b""
        hooks = tuple(Webhook(url, secret) for url in dict.fromkeys(self.webhook or ()))
        return hooks if self.on_drift is None else (*hooks, DriftCommand.of(self.on_drift))

    def _secret(self) -> bytes:
        from jobs.service.receivers import parsed_secret

        if self.webhook_secret is None and SECRET not in os.environ:
            raise SettingsError(
                "webhooks are signed, and there is no secret",
                hint=f"name a file with --webhook-secret, or set {SECRET}",
            )
        if self.webhook_secret is None:
            return parsed_secret(os.environ[SECRET])
        return parsed_secret(secret_in(self.webhook_secret, "--webhook-secret"))


@verb
def serve(
    *,
    host: str = option("127.0.0.1", "Address to listen at; others than loopback need tokens."),
    port: int = option(
        PORT, "Port to listen at; 0 for any that is free.", minimum=0, maximum=65535
    ),
    names: list[str] | None = option(
        None,
        "Name under which browsers reach it, beside the host's; may be repeated.",
        flags=("--name",),
    ),
    allow: AllowOptions,
    schedules_only: bool = option(
        False, "Run what is due, and what was submitted, without answering requests."
    ),
    grace: float = option(
        GRACE_SECONDS,
        "Seconds after which a due time counts as missed.",
        minimum=0.0,
        maximum=LONGEST_GRACE_SECONDS,
    ),
    notices: NoticeOptions,
    offline: OfflineOption = False,
    options: RunnerOptions,
    limits: Limits,
    registry: RegistryOption = None,
    queries: SqlLimits,
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Run schedules and submitted surveys, and answer requests over HTTP, until it is stopped.

    A home is made where there is none.
    """
    from catalog.open_home import open_home
    from jobs.service.driver import DriverSettings
    from jobs.service.driver_process import DriverProcess

    folders = allow.folders()
    opened = open_home(home, create=True, registry_url=registry)
    driving = DriverSettings(
        opened,
        partial(runner_of, options),
        say,
        recall_consent,
        folders,
        notices.receivers(),
        offline,
        limits,
        grace,
    )
    if schedules_only:
        drive_here(driving)
        return
    from jobs.service.server import serve as answer_requests

    # Arrow in the processes that compute answers keeps memory for ten minutes, not milliseconds:
    # frames are read anew after each run, and to get it again takes as long as to read them.
    os.environ.setdefault("MIMALLOC_PURGE_DELAY", "600000")
    settings = ServiceSettings(opened, host, port, tuple(names or ()), folders, sql=queries)
    with termination_interrupts():
        answer_requests(settings, say, DriverProcess(drive_below, driving))


def drive_here(settings: DriverSettings) -> None:
    """Drive a home until this process is told to stop."""
    from jobs.service.driver import drive

    with suppress(KeyboardInterrupt), termination_interrupts():
        drive(settings)


def drive_below(settings: DriverSettings) -> None:
    """Drive a home until the process that started this one stops it, or is gone."""
    from jobs.service.driver_process import stop_with_parent

    # Ctrl-C is for the other process, which stops this one.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Whoever asks for a page waits; a scan takes hours anyway.
    os.nice(NICENESS)
    stop_with_parent()
    make_streams_safe()
    try:
        drive_here(settings)
    except SurveyError as error:
        complain(error.message, error.hint)
        sys.exit(error.exit_code)
