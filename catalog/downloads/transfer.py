"""One file over http: asked for, asked for again where that helps, and resumed after a break.

Owns requests, retries and resuming; ``catalog.downloads.store`` checks and keeps the file.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain

import requests

from catalog.downloads.hub_login import hub_login
from catalog.downloads.pace import PacedAdapter
from catalog.downloads.partial import Partial
from catalog.downloads.responses import (
    Passing,
    check_content,
    check_redirect,
    check_status,
    first_byte,
    version_of,
)
from catalog.downloads.urls import direct_address, public_address
from catalog.models.base import RemoteFile
from survey.errors import DownloadError, UnreachableError
from survey.text import format_bytes, format_duration

#: Called while bytes arrive, with their number and the whole number, where that is known.
Progress = Callable[[int, int | None], None]

#: What a download leaves free on its disk, in bytes.
SPARE_BYTES = 10**9

#: Failures in a row after which a download is given up.
ATTEMPTS = 5
#: New bytes after which failures are counted from the start again.
PROGRESS_BYTES = 2**20
#: Seconds before the second try; they double from try to try.
FIRST_WAIT_SECONDS = 1.0
#: The most seconds between two tries; a server that asks for more is given up.
LONGEST_WAIT_SECONDS = 120.0
#: Seconds within which a server must be reached.
CONNECT_SECONDS = 20.0
#: Seconds without any bytes after which a connection counts as dead.
STALL_SECONDS = 60.0
#: The most bytes of a file whose length neither its publisher nor its server states.
UNSTATED_BYTES = 20 * 10**9

#: Small, because a chunk is lost when the connection breaks within it.
_CHUNK_BYTES = 2**14
#: Bytes after which free disk space is checked again, where the length is not known.
LOOK_BYTES = 2**26
_REDIRECTS = 10
_HEADERS = {
    "User-Agent": "model-zoo-survey",
    # Of a compressed transfer neither lengths nor ranges would be the file's.
    "Accept-Encoding": "identity",
}


@dataclass(frozen=True, slots=True)
class Transfer:
    """The fetching of one file into a partial one."""

    #: What is fetched.
    file: RemoteFile
    #: Where its bytes go.
    partial: Partial
    #: Called while bytes arrive.
    progress: Progress | None = None

    def run(self) -> None:
        """Fetch until the partial file is complete, starting from what it has.

        Raises
        ------
        DownloadError
            If the server refuses, sends something else or cannot be reached, or the disk has no
            room. What was fetched so far stays, except where it is of no use.
        """
        failures, furthest, version = 0, self.partial.bytes, self.partial.version
        while True:
            try:
                return self._attempt()
            except Passing as problem:
                reached = self.partial.bytes
                if self.partial.version != version:
                    # As far as the bytes of another content go says nothing of this one.
                    furthest, version = reached, self.partial.version
                # Never the bytes of one try: a server that always breaks at one place is given up.
                moved = reached >= furthest + PROGRESS_BYTES
                failures, furthest = (1 if moved else failures + 1), max(furthest, reached)
                self._wait(problem, failures)

    def _attempt(self) -> None:
        if self.partial.complete:
            # Its last byte came just before the process ended.
            return
        answered = False
        try:
            with requests.Session() as session:
                session.max_redirects = _REDIRECTS
                session.headers.update(_HEADERS)
                for scheme in ("https://", "http://"):
                    session.mount(scheme, PacedAdapter())
                with self._asked(session) as response:
                    answered = True
                    self._receive(response)
        except requests.RequestException as problem:
            raise self._judged(problem, answered=answered) from None
        except ValueError as problem:
            # What libraries let through of addresses and answers that mean nothing.
            raise self._unaskable(type(problem).__name__) from None
        except DownloadError as problem:
            raise self._refusal(problem.message, problem.hint) from None
        except OSError as problem:
            if problem.errno is None:
                # Not the system's: requests lacks the certificates that it should trust.
                raise self._unaskable(str(problem)) from None
            raise self._refusal(
                f"{self.partial.path} cannot be written ({problem.strerror or problem})",
                "free some disk space, or check the directory's permissions",
            ) from problem

    def _asked(self, session: requests.Session) -> requests.Response:
        return session.get(
            direct_address(self.file.url),
            headers=self.partial.range_headers(),
            auth=hub_login(self.file.url),
            hooks={"response": check_redirect},
            timeout=(CONNECT_SECONDS, STALL_SECONDS),
            stream=True,
        )

    def _receive(self, response: requests.Response) -> None:
        self._check_range(response)
        check_status(response)
        start = first_byte(response)
        version = version_of(response)
        chunks = _chunks(response)
        if not start:
            head = next(chunks, b"")
            check_content(response, head, self.file.name)
            chunks = chain([head], chunks)
        self._check_length(version.bytes)
        length = self.file.bytes if version.bytes is None else version.bytes
        if length is not None:
            self._check_space(length - (start or 0))
        if not start:
            self.partial.begin(version)
        self._write(chunks, start or 0, length)
        self._check_end(length)

    def _check_range(self, response: requests.Response) -> None:
        """Start anew where the server cannot go on from the bytes that are here."""
        status = response.status_code
        if status == requests.codes.partial_content:
            version = self.partial.version
            same = version is not None and version.agrees_with(version_of(response))
            same = same and first_byte(response) == self.partial.bytes
        else:
            same = status != requests.codes.requested_range_not_satisfiable
        if not same:
            self.partial.discard()
            raise Passing("the server's content changed in between")

    def _check_length(self, length: int | None) -> None:
        known = self.file.bytes
        if length is not None and known is not None and length != known:
            raise DownloadError(
                f"the server offers {length} bytes, the file published has {known}",
                hint="it may have been replaced, or the address leads to something else now",
            )

    def _check_space(self, count: int) -> None:
        folder = next(place for place in self.partial.path.parents if place.exists())
        free = shutil.disk_usage(folder).free
        needed = count + SPARE_BYTES
        if needed > free:
            raise DownloadError(
                f"the disk has {format_bytes(free)} free, needed are {format_bytes(needed)}"
                f" ({format_bytes(count)} to fetch and {format_bytes(SPARE_BYTES)} to spare)",
                hint="free some disk space, or choose a home on another disk",
            )

    def _write(self, chunks: Iterator[bytes], start: int, length: int | None) -> None:
        done = start
        unlooked = 0
        most = UNSTATED_BYTES if length is None else length
        with self.partial.path.open("ab") as file:
            for chunk in chunks:
                file.write(chunk)
                done += len(chunk)
                unlooked += len(chunk)
                if unlooked >= LOOK_BYTES:
                    self._check_space(0 if length is None else max(0, length - done))
                    unlooked = 0
                if done > most:
                    # Only where the server states no length, and so might never end.
                    break
                if self.progress is not None:
                    self.progress(done, length)

    def _check_end(self, length: int | None) -> None:
        received = self.partial.bytes
        most = UNSTATED_BYTES if length is None else length
        if received > most:
            self.partial.discard()
            which = "of the file" if length else "that one of unknown length may have"
            raise DownloadError(f"the server sends more than the {most} bytes {which}")
        if length is not None and received < length:
            raise Passing(f"the connection ended after {received} of {length} bytes")
        if not received:
            raise DownloadError("the server answers with an empty file")

    def _wait(self, problem: Passing, failures: int) -> None:
        kind = UnreachableError if problem.of_server else DownloadError
        if failures >= ATTEMPTS:
            raise self._refusal(
                f"{problem.reason}, the last of {failures} failures in a row",
                "check the network and run the same command again: it goes on where this one ended",
                kind,
            )
        if problem.least_wait > LONGEST_WAIT_SECONDS:
            raise self._refusal(
                f"{problem.reason} and asks to wait {format_duration(problem.least_wait)}",
                "run the same command again after that time",
                kind,
            )
        # Jitter: clients must not retry in lockstep.
        doubled = FIRST_WAIT_SECONDS * 2.0 ** (failures - 1) * random.uniform(0.75, 1.25)
        time.sleep(max(problem.least_wait, min(LONGEST_WAIT_SECONDS, doubled)))

    def _judged(self, problem: requests.RequestException, *, answered: bool) -> Exception:
        """Return the error for a failed request, without its message: that holds the address."""
        causes = list(_causes(problem))
        if isinstance(problem, requests.TooManyRedirects):
            return self._refusal(f"the server leads on more than {_REDIRECTS} times", None)
        if isinstance(problem, requests.exceptions.SSLError) and any(
            "CERTIFICATE_VERIFY_FAILED" in str(cause) for cause in causes
        ):
            return self._refusal(
                "the server's certificate is not trusted",
                "check the machine's clock and certificates",
            )
        if isinstance(problem, requests.Timeout) or any(
            isinstance(cause, TimeoutError) for cause in causes
        ):
            return Passing("no answer in time", of_server=True)
        if isinstance(problem, requests.ConnectionError | requests.exceptions.ChunkedEncodingError):
            reasons = [cause.strerror for cause in causes if isinstance(cause, OSError)]
            reason = next(filter(None, reasons), "the connection broke").lower()
            return Passing(reason, of_server=not answered)
        return self._unaskable(type(problem).__name__)

    def _unaskable(self, why: str) -> DownloadError:
        return self._refusal(f"it cannot be asked for ({why})", None)

    def _refusal(
        self, what: str, hint: str | None, kind: type[DownloadError] = DownloadError
    ) -> DownloadError:
        name, address = self.file.name, public_address(self.file.url)
        return kind(f"{name} cannot be fetched from {address}: {what}", hint=hint)


def _chunks(response: requests.Response) -> Iterator[bytes]:
    # Some servers declare an archive's compression as the transfer's: published lengths and hashes
    # are of the bytes as they are sent.
    response.raw.headers.pop("Content-Encoding", None)
    try:
        # What has come, and not only whole chunks: a server may take for ever over each.
        while chunk := response.raw.read1(_CHUNK_BYTES, decode_content=False):
            yield chunk
    except requests.exceptions.BaseHTTPError as problem:  # type: ignore[attr-defined]
        raise requests.ConnectionError(problem) from problem


def _causes(problem: BaseException) -> Iterator[BaseException]:
    """Yield an error and its causes: requests wraps the system's errors."""
    inner: object = problem
    while isinstance(inner, BaseException):
        yield inner
        inner = inner.__cause__ or inner.__context__
