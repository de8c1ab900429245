"""``--server URL``: a verb asks a service instead of the home."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.option_fields import option
from jobs.cli.terminal import complain, say
from jobs.cli.verb import INTERRUPTED, SOME_FAILED
from survey.errors import SettingsError

if TYPE_CHECKING:
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

    def client(self) -> ServiceClient | None:
        """Return the client of the service; None where the home is asked.

        Raises
        ------
        SettingsError
            If the address or the token's file cannot be used.
        """
        if self.server is None:
            return None
        from jobs.service_client import ServiceClient

        return ServiceClient(self.server, self._token())

    def _token(self) -> str | None:
        if self.token_file is None:
            return os.environ.get(TOKEN)
        try:
            return self.token_file.read_text(encoding="ascii").strip()
        except (OSError, UnicodeDecodeError):
            raise SettingsError(f"--token-file {self.token_file} cannot be read") from None


def run_there(client: ServiceClient, definition: Definition) -> int:
    """Submit a survey, show how it stands until it is over, and return the exit code."""
    submitted = client.submit({"name": definition.name, **definition.to_dict()})
    survey, before = submitted, ""
    for survey in client.until_over(submitted.id):
        line = _line(survey, client)
        if line != before:
            say(line)
        before = line
    if survey.state == "done":
        return SOME_FAILED if survey.failed else 0
    complain(survey.reason or survey.state, None)
    return INTERRUPTED if survey.state == "cancelled" else SOME_FAILED


def _line(survey: SurveyStanding, client: ServiceClient) -> str:
    title = f"survey {survey.id} ({survey.name}): {survey.state}"
    if survey.state == "running":
        scan = client.scan_of(survey)
        if scan.jobs is not None:
            return f"{title}, {scan.done} of {scan.jobs} jobs"
    if survey.state == "done":
        counts = f"{survey.measured} measured, {survey.failed} failed"
        return f"{title}, {counts}, {survey.skipped} skipped"
    return title
