"""Who is sent events: webhooks, and a command. Set at the command line alone."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any, Protocol, get_args
from urllib.parse import unquote_to_bytes, urlsplit

from catalog.registry.rows import EventKind, EventRow
from jobs.operations.server_paths import without_folders
from survey.errors import SettingsError

#: Seconds that a webhook may take to answer, and a command to end.
WEBHOOK_SECONDS, COMMAND_SECONDS = 15.0, 300.0

#: Bytes of the shortest secret.
LEAST_SECRET = 16

#: What a secret that is written in base 64 begins with.
_ENCODED = "whsec_"

_PORTS = {"http": http.client.HTTP_PORT, "https": http.client.HTTPS_PORT}


class NotAccepted(Exception):
    """A receiver did not accept an event; the message says why, without its address."""


class Receiver(Protocol):
    """Who is sent events."""

    @property
    def key(self) -> str:
        """What it is known by: a hash of its address."""

    @property
    def name(self) -> str:
        """What logs call it: without what may be secret."""

    @property
    def kinds(self) -> tuple[EventKind, ...]:
        """The kinds of events that it gets."""

    def send(self, event: EventRow) -> None:
        """Send an event.

        Raises
        ------
        NotAccepted
            If it is to be sent again.
        """


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that every event is posted to, as JSON, signed as Standard Webhooks has it.

    Parameters
    ----------
    url : str
        The address; http or https.
    secret : bytes
        The key of the signature.

    Notes
    -----
    The header ``webhook-id`` is the event's id, ``webhook-timestamp`` the seconds since 1970 of the
    try, and ``webhook-signature`` is ``v1,`` with the HMAC-SHA256 in base 64 of
    ``ID.TIMESTAMP.BODY``. Any status from 200 to 299 accepts the event; redirections are not
    followed, and nothing of the answer is read but its head.
    """

    url: str = field(repr=False)
    secret: bytes = field(repr=False)

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            usable = parts.scheme in _PORTS and parts.hostname and parts.port != 0
        except ValueError:
            usable = False
        if not usable or not self.url.isascii() or not self.url.isprintable() or " " in self.url:
            raise SettingsError(
                "a --webhook is no http or https address", hint="write https://HOST/PATH"
            )
        try:
            # As the socket encodes it; else every event would fail.
            (parts.hostname or "").encode("idna")
        except UnicodeError:
            raise SettingsError(
                "the host of a --webhook is no name: a part of it is empty or longer than 63 bytes",
                hint="write https://HOST/PATH",
            ) from None

    @property
    def key(self) -> str:
        """The hash of its address."""
        return hashlib.sha256(self.url.encode()).hexdigest()

    @property
    def name(self) -> str:
        """Its host: the rest may hold a secret."""
        return f"webhook at {urlsplit(self.url).hostname}"

    @property
    def kinds(self) -> tuple[EventKind, ...]:
        """All."""
        return get_args(EventKind)

    def send(self, event: EventRow) -> None:
        """Post an event; see ``Receiver``."""
        body = event_json(event)
        parts = urlsplit(self.url)
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        kind = (
            http.client.HTTPSConnection if parts.scheme == "https" else (http.client.HTTPConnection)
        )
        port = parts.port or _PORTS[parts.scheme]
        connection = kind(parts.hostname or "", port, timeout=WEBHOOK_SECONDS)
        # A server that sends a byte now and then would never run out of the socket's time.
        limit = threading.Timer(WEBHOOK_SECONDS, _shut, [connection])
        limit.start()
        try:
            with closing(connection):
                connection.connect()
                if limit.finished.is_set():
                    raise TimeoutError
                connection.request("POST", path, body, self._headers(event, body, time.time()))
                status = connection.getresponse().status
        # A host that is no name, as far as it was not refused before, is a UnicodeError.
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            # Not what the server wrote: it may repeat the address.
            reason = error.strerror if isinstance(error, OSError) else None
            raise NotAccepted(reason or type(error).__name__) from None
        finally:
            limit.cancel()
        if not 200 <= status < 300:
            raise NotAccepted(f"it answered {status}")

    def _headers(self, event: EventRow, body: bytes, now: float) -> Mapping[str, str]:
        moment, parts = str(int(now)), urlsplit(self.url)
        user = b":".join(unquote_to_bytes(each or "") for each in (parts.username, parts.password))
        basic = {"Authorization": f"Basic {base64.b64encode(user).decode()}"}
        return {
            **(basic if len(user) > 1 else {}),
            "Content-Type": "application/json",
            "User-Agent": "model-zoo-survey",
            "webhook-id": event.id,
            "webhook-timestamp": moment,
            "webhook-signature": signature(self.secret, event.id, moment, body),
        }


@dataclass(frozen=True, slots=True)
class DriftCommand:
    """A command that is run on drift, without a shell: the event is its standard input, as JSON.

    Parameters
    ----------
    arguments : tuple of str
        The program and its arguments.
    """

    arguments: tuple[str, ...] = field(repr=False)

    @classmethod
    def of(cls, written: str) -> DriftCommand:
        """Return the command that a line means.

        Raises
        ------
        SettingsError
            If there is no such program, or its quotes do not end.
        """
        import shutil

        try:
            arguments = tuple(shlex.split(written))
        except ValueError as error:
            raise SettingsError(f"--on-drift {written!r} cannot be read: {error}") from None
        if not arguments or not shutil.which(arguments[0]):
            raise SettingsError(
                f"--on-drift {written!r} names no program that can be run",
                hint="write a program and its arguments; no shell reads them",
            )
        return cls(arguments)

    @property
    def key(self) -> str:
        """The hash of the program and its arguments."""
        return hashlib.sha256("\0".join(self.arguments).encode()).hexdigest()

    @property
    def name(self) -> str:
        """Its program: arguments may hold a secret."""
        return f"command {self.arguments[0]}"

    @property
    def kinds(self) -> tuple[EventKind, ...]:
        """Drift alone."""
        return ("drift",)

    def send(self, event: EventRow) -> None:
        """Run the command; see ``Receiver``. An exit code above 0 is no acceptance."""
        try:
            with subprocess.Popen(  # noqa: S603 - set at the command line, run without a shell
                self.arguments,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
            ) as process:
                try:
                    process.communicate(event_json(event), timeout=COMMAND_SECONDS)
                finally:
                    with suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
        except subprocess.TimeoutExpired:
            raise NotAccepted(f"it took longer than {COMMAND_SECONDS:g} seconds") from None
        except OSError as error:
            raise NotAccepted(f"it cannot be run: {error.strerror}") from None
        if process.returncode:
            raise NotAccepted(f"it ended with exit code {process.returncode}")


def signature(secret: bytes, event_id: str, moment: str, body: bytes) -> str:
    """Return the signature of a request, as the header ``webhook-signature`` has it."""
    content = b".".join((event_id.encode(), moment.encode(), body))
    digest = hmac.new(secret, content, hashlib.sha256).digest()
    return f"v1,{base64.b64encode(digest).decode()}"


def parsed_secret(written: str) -> bytes:
    """Return the key that a secret means: its bytes, or what is behind ``whsec_`` in base 64.

    Raises
    ------
    SettingsError
        If it is too short, or no base 64.
    """
    written = written.strip()
    try:
        secret = (
            base64.b64decode(written.removeprefix(_ENCODED), validate=True)
            if written.startswith(_ENCODED)
            else written.encode("utf-8", "surrogateescape")
        )
    except ValueError:
        raise SettingsError(f"behind {_ENCODED} the secret of webhooks is no base 64") from None
    if len(secret) < LEAST_SECRET:
        raise SettingsError(
            f"the secret of webhooks has {len(secret)} bytes, must have {LEAST_SECRET} or more",
            hint="head -c 32 /dev/urandom | base64 > FILE makes one",
        )
    return secret


def event_json(event: EventRow) -> bytes:
    """Return an event as it is sent: the same bytes each time."""
    return json.dumps(event_object(event)).encode()


def event_object(event: EventRow) -> dict[str, Any]:
    """Return an event as the API, webhooks and commands have it."""
    return {
        "id": event.id,
        "type": event.kind,
        "timestamp": event.happened_at.isoformat(),
        "title": without_folders(event.title),
        "cause": event.cause,
        "data": without_folders(event.detail),
    }


def _shut(connection: http.client.HTTPConnection) -> None:
    if connection.sock is not None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)
