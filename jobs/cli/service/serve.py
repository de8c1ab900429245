"""``survey serve``: the service, until it is told to stop."""

from __future__ import annotations

from pathlib import Path

from analysis.option_fields import option
from jobs.cli.signals import termination_interrupts
from jobs.cli.terminal import say
from jobs.cli.verb import DEFAULT_HOME, HomeOption, verb
from survey.errors import SettingsError


@verb
def serve(
    *,
    host: str = option("127.0.0.1", "Address to listen at; others than loopback need tokens."),
    port: int = option(8765, "Port to listen at; 0 for any that is free.", minimum=0),
    names: list[str] | None = option(
        None,
        "Name under which browsers reach it, beside the host's; may be repeated.",
        flags=("--name",),
    ),
    allowed: list[Path] | None = option(
        None,
        "Folder below which submitted surveys may name files and folders; may be repeated.",
        flags=("--allow",),
        metavar="PATH",
    ),
    home: HomeOption = DEFAULT_HOME,
) -> None:
    """Answer requests over HTTP until it is told to stop; a home is made where there is none."""
    from catalog.open_home import open_home
    from jobs.service.server import serve as answer_requests
    from jobs.service.settings import ServiceSettings

    for folder in allowed or ():
        if not folder.is_dir():
            raise SettingsError(f"--allow {folder} is no folder", hint="name one that exists")
    settings = ServiceSettings(
        open_home(home, create=True),
        host,
        port,
        tuple(names or ()),
        tuple(folder.resolve() for folder in allowed or ()),
    )
    with termination_interrupts():
        answer_requests(settings, say)
