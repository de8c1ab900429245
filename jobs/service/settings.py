"""The settings of a service, given at its command line alone."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from analysis.option_fields import option
from catalog.home import Home
from jobs.operations.sql_query import QueryLimits
from survey.errors import SettingsError

#: The port where no other is named.
PORT = 8765

#: By how much the priority of other processes is lowered beside the one that answers: of clients'
#: queries, of the one that draws pages, and of the one that scans.
NICENESS = 10


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """What clients' queries may take; none of them writes a file of its own."""

    sql_timeout: float = option(30.0, "Seconds that a client's query may take.", metavar="SECONDS")
    sql_memory: float = option(1.0, "GB of memory that a client's query may take.", metavar="GB")
    sql_rows: int = option(1_000_000, "Rows that a client's query may give.", minimum=1)
    sql_space: float = option(
        0.25, "GB of temporary space that the result of a client's query may take.", metavar="GB"
    )
    sql_at_once: int = option(
        2, "Clients' queries that run at once; others wait a little.", minimum=1
    )

    def __post_init__(self) -> None:
        self.of_query(0)
        if not self.sql_space > 0:
            raise SettingsError(f"--sql-space is {self.sql_space:g}, must be above 0")

    def of_query(self, rows: int) -> QueryLimits:
        """Return the limits of a query that gives so many rows at most."""
        return QueryLimits(
            self.sql_timeout,
            self.sql_memory,
            rows=rows,
            without_paths=True,
            niceness=NICENESS,
            options="--sql-",
        )


@dataclass(frozen=True, slots=True)
class ServiceSettings:
    """What a service is told when it starts."""

    home: Home
    #: The address, or the name of one, that it listens at.
    host: str = "127.0.0.1"
    #: 0 for any that is free.
    port: int = PORT
    #: Names under which browsers reach it, beside the host's.
    names: tuple[str, ...] = ()
    #: Folders below which the files and folders lie that a submitted survey may name.
    allowed: tuple[Path, ...] = ()
    #: Bytes of a request's body.
    most_body_bytes: int = 1 << 20
    #: Seconds that requests under way may take to finish once the service is to stop.
    stop_seconds: int = 10
    #: What clients' queries may take.
    sql: SqlLimits = SqlLimits()

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host == "localhost" or is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a host is an address that only its own machine reaches."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
