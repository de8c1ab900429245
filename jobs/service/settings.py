"""The settings of a service, given at its command line alone."""

from __future__ import annotations

import ipaddress
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from catalog.home import Home

#: The port where no other is named.
PORT = 8765


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

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host == "localhost" or is_loopback(self.host)


def is_loopback(host: str) -> bool:
    """Return whether a host is an address that only its own machine reaches."""
    with suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return False
