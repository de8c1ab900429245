"""How long a server may take over an answer, whose every byte may come just in time.

A connection's timeout begins anew with each byte. The headers of an answer have a time of their
own, whatever they are made of, and what follows them has a least rate.
"""

from __future__ import annotations

import io
import time
from http.client import HTTPResponse
from typing import Any

from requests.adapters import HTTPAdapter

from catalog.downloads.responses import Passing
from survey.text import format_duration

#: Seconds within which the headers of an answer must be there.
HEADERS_SECONDS = 60.0
#: Bytes a second, over a while of so many seconds, below which a connection counts as dead.
LEAST_RATE, RATE_SECONDS = 1_000, 60.0


class PacedAdapter(HTTPAdapter):
    """Makes connections whose answers may not take for ever; reading raises ``Passing``."""

    def get_connection_with_tls_context(self, *args: Any, **kwargs: Any) -> Any:
        """Return the connections to a server, a pool of the library below requests."""
        pool = super().get_connection_with_tls_context(*args, **kwargs)
        kind: Any = pool.ConnectionCls
        if kind.response_class is not _PacedResponse:
            pool.ConnectionCls = type(kind.__name__, (kind,), {"response_class": _PacedResponse})
        return pool


class _PacedResponse(HTTPResponse):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._paced = _Paced(self.fp.detach())
        self.fp = io.BufferedReader(self._paced)

    def begin(self) -> None:
        super().begin()
        self._paced.begin_content()


class _Paced(io.RawIOBase):
    """What comes from a server."""

    def __init__(self, raw: io.RawIOBase) -> None:
        self._raw, self._in_headers = raw, True
        self._since, self._count = time.monotonic(), 0

    def begin_content(self) -> None:
        self._in_headers = False
        self._since, self._count = time.monotonic(), 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int | None:
        count = self._raw.readinto(buffer)
        if count:
            self._count += count
            self._check(time.monotonic() - self._since)
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()

    def _check(self, seconds: float) -> None:
        if self._in_headers:
            if seconds > HEADERS_SECONDS:
                text = f"no whole answer came in {format_duration(seconds)}"
                raise Passing(text, of_server=True)
        elif seconds >= RATE_SECONDS:
            if self._count < LEAST_RATE * seconds:
                text = f"only {self._count} bytes came in {format_duration(seconds)}"
                raise Passing(text, of_server=True)
            self.begin_content()
