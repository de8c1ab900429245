"""``--server URL``: a verb asks a service instead of the home."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.option_fields import given_flags, option
from jobs.cli.secret_file import secret_in
from jobs.cli.terminal import complain, say
from jobs.cli.verb import INTERRUPTED, SOME_FAILED
from survey.errors import SettingsError, UnreachableError

if TYPE_CHECKING:
    from jobs.cli.output import TableOptions
    from jobs.planning.definition import Definition
    from jobs.service_client import ServiceClient, SurveyStanding

#: The variable with the secret of a token, where no file is named.
TOKEN = "SURVEY_TOKEN"  # noqa: S105 - its name alone


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """The service that is asked, if any."""

    server: str | None = option(
        None, "Address of a `survey serve` to ask instead.", metavar="URL", none="the home is asked"
    )
    token_file: Path | None = option(
        None, "With --server: file with the secret of a token.", metavar="FILE", none=f"${TOKEN}"
    )

    def client(self, *own: object, **settings: object) -> ServiceClient | None:
        """Return the client of the service; None where the home is asked.

        Parameters
        ----------
        *own : dataclass instance
            Options that a service has of its own.
        **settings : object
            The same by their names; what counts as false was not given.

        Raises
        ------
        SettingsError
            If the address or the token's file cannot be used, one of these options is given, or
            there is a token's file and no address.
        """
        if self.server is None:
            if self.token_file is not None:
                raise SettingsError("--token-file goes with --server", hint="add --server URL")
            return None
        given = [flag for options in own for flag in given_flags(options)]
        given += [f"--{name}" for name, value in settings.items() if value]
        if given:
            raise SettingsError(
                f"--server excludes {', '.join(given)}", hint="a service is started with its own"
            )
        from jobs.service_client import ServiceClient

        return ServiceClient(self.server, self._token())

    def _token(self) -> str | None:
        if self.token_file is None:
            # Secrets that are mounted often end with a line break.
            where, secret = f"${TOKEN}", os.environ.get(TOKEN, "").strip()
        else:
            where = f"--token-file {self.token_file}"
            secret = secret_in(self.token_file, "--token-file")
        if not (secret.isascii() and secret.isprintable()):
            raise SettingsError(f"{where} holds no token: it has other than ASCII's characters")
        return secret or None


def run_there(client: ServiceClient, definition: Definition, table: TableOptions) -> int:
    """Submit a survey, show how it stands until it is over, and return the exit code.

    As a run on this machine it writes the result of each job and every failure.
    """
    from catalog.tags import LONGEST

    # Here a name may be that of a file, and longer than one that is declared.
    submitted = client.submit({"name": definition.name[:LONGEST], **definition.to_dict()})
    try:
        return _end_of(submitted, client, table)
    except KeyboardInterrupt:
        hint = f"survey {submitted.id} goes on there: `survey status --server` shows it"
        complain("watching was interrupted", hint)
        return INTERRUPTED


def _end_of(submitted: SurveyStanding, client: ServiceClient, table: TableOptions) -> int:
    """Show a submitted survey until it is over, and its result; return the exit code."""
    survey, before = submitted, ""
    for survey in client.until_over(submitted.id):
        line = _line(survey, client)
        if line != before:
            say(line)
        before = line
    jobs = client.patiently(lambda: client.status(survey=survey.id).items, survey.id)
    if jobs:
        overview = client.patiently(lambda: client.listed("queries/signatures-overview"), survey.id)
        table.write_runs(overview, [job.run_id for job in jobs])
    for job in jobs:
        if job.state == "cancelled":
            say(f"cancelled: {job.architecture} {job.checkpoint}")
        if job.state in ("failed", "parked"):
            complain(f"{job.architecture} {job.checkpoint}: {job.error or job.state}", None)
    if survey.state == "done":
        return SOME_FAILED if survey.failed else 0
    complain(survey.reason or survey.state, None)
    return INTERRUPTED if survey.state == "cancelled" else SOME_FAILED


def _line(survey: SurveyStanding, client: ServiceClient) -> str:
    title = f"survey {survey.id} ({survey.name}): {survey.state}"
    if survey.state == "running":
        # Without numbers while the service is away: the survey is asked for again.
        with suppress(UnreachableError):
            scan = client.scan_of(survey)
            if scan.jobs is not None:
                return f"{title}, {scan.done} of {scan.jobs} jobs"
    if survey.state == "done":
        counts = f"{survey.measured} measured, {survey.failed} failed"
        return f"{title}, {counts}, {survey.skipped} skipped"
    # A service may not be allowed to run it.
    return f"{title}: {survey.reason}" if survey.state == "queued" and survey.reason else title
