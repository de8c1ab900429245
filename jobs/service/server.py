"""The server: it listens, answers until it is told to stop, and lets requests finish."""

from __future__ import annotations

import asyncio
import resource
import signal
import socket
import threading
from array import array
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import UTC, datetime
from fcntl import ioctl
from functools import partial
from termios import TIOCOUTQ
from types import FrameType

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from catalog.registry.registry import Registry
from catalog.registry.tokens import is_usable
from jobs.service.application import make_application
from jobs.service.settings import ServiceSettings
from survey.errors import SettingsError

#: Connections that wait to be accepted.
_WAITING_CLIENTS = 1024

#: Seconds for the head of a request, the rest of a refused body before it included, and for a body.
HEAD_SECONDS, BODY_SECONDS = 30.0, 60.0

#: Bytes of an answer that a client takes at least within so many seconds: its room is for others
#: then.
TAKEN_BYTES, TAKEN_SECONDS = 1 << 16, 30.0


def serve(
    settings: ServiceSettings, say: Callable[[str], None], beside: AbstractContextManager[object]
) -> None:
    """Answer requests until the process is told to stop.

    Parameters
    ----------
    settings : ServiceSettings
        Where, and what.
    say : callable
        Takes a line about the address.
    beside : context manager
        Entered once the address is had, and left at the end.

    Raises
    ------
    SettingsError
        If the address cannot be had, or needs tokens and there are none.
    """
    _require_tokens(settings)
    _allow_most_files()
    with closing(_listening(settings)) as listener:
        app = make_application(settings)
        app.state.first_copy.begin(settings.home)
        # Beside that copy: whoever asks first would wait for them.
        app.state.renderer.load()
        app.state.queries.prepare()
        say(f"listening at {_url(listener)}")
        # It finishes what is under way, and then repeats the signal that stopped it.
        with beside, suppress(KeyboardInterrupt):
            _Server(app, settings.stop_seconds).run([listener])


class _Server(uvicorn.Server):
    """A server whose streams, which have no end, end once it is told to stop."""

    def __init__(self, app: FastAPI, stop_seconds: int) -> None:
        config = uvicorn.Config(
            app,
            http=_PromptProtocol,
            log_config=None,
            access_log=False,
            lifespan="on",
            # As often a turn it tries to accept, and logs each try that finds no file left.
            backlog=1,
            # Whoever sends them could choose the address that wrong tokens are counted for.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=stop_seconds,
            ws="none",
        )
        super().__init__(config)
        self._app = app

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Let as many clients wait as before: it set as many as it accepts a turn."""
        await super().startup(sockets)
        for each in sockets or ():
            each.listen(_WAITING_CLIENTS)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGHUP, too, unless that is ignored, as under nohup."""
        with super().capture_signals():
            before = signal.getsignal(signal.SIGHUP)
            here = threading.current_thread() is threading.main_thread()
            if not here or before is signal.SIG_IGN:
                yield
                return
            signal.signal(signal.SIGHUP, self.handle_exit)
            try:
                yield
            finally:
                signal.signal(signal.SIGHUP, before)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Tell the streams, then let requests finish."""
        self._app.state.stopping = True
        super().handle_exit(sig, frame)


class _PromptProtocol(H11Protocol):
    """HTTP/1.1 that closes connections on which no whole head or body of a request comes in time.

    The server's own limit begins only with its first answer, and ends with any byte. Connections
    whose client does not take an answer are closed, too.
    """

    #: The limit for what is sent, while it waits for the client.
    _taking: asyncio.TimerHandle | None = None
    _limit: asyncio.TimerHandle | None = None
    #: The seconds of that limit, None while nothing is waited for, and the last request.
    _waited: tuple[float | None, object] = (None, None)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first head."""
        super().connection_made(transport)
        # Whatever a client has not taken is waited for, the end of an answer too.
        transport.set_write_buffer_limits(0)
        self._limit_waiting()

    def handle_events(self) -> None:
        """Wait for the rest of a head or body, if it is not whole."""
        # Not only as data come: a request may have come with the one before it.
        super().handle_events()
        self._limit_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        super().connection_lost(exc)
        self._set_limit(None)
        self._end_limit_of_taking()

    def pause_writing(self) -> None:
        """Wait for the client to take what was sent."""
        super().pause_writing()
        self._limit_taking()

    def resume_writing(self) -> None:
        """Wait no longer for that."""
        super().resume_writing()
        self._end_limit_of_taking()

    def _limit_taking(self) -> None:
        self._taking = self.loop.call_later(TAKEN_SECONDS, self._require_taken, self._untaken())

    def _untaken(self) -> int:
        """Return how many bytes the client has not taken, those that the system holds included."""
        # The system takes more only once a third of its megabytes has gone.
        held = array("i", [0])
        with suppress(OSError):
            ioctl(self.transport.get_extra_info("socket"), TIOCOUTQ, held)
        return self.transport.get_write_buffer_size() + held[0]

    def _require_taken(self, before: int) -> None:
        if before - self._untaken() < TAKEN_BYTES:
            # Closing would wait for the client to take the rest.
            self.transport.abort()
        else:
            self._limit_taking()

    def _end_limit_of_taking(self) -> None:
        if self._taking is not None:
            self._taking.cancel()

    def _limit_waiting(self) -> None:
        # None before the first request, whatever its type says.
        begun = self.cycle is not None
        if not begun or self.cycle.response_complete:
            self._set_limit(HEAD_SECONDS)
        else:
            in_body = self.conn.their_state.__name__ == "SEND_BODY"
            self._set_limit(BODY_SECONDS if in_body else None)

    def _set_limit(self, seconds: float | None) -> None:
        """Limit what is waited for; the same limit goes on, whatever bytes come."""
        if (waited := (seconds, self.cycle)) == self._waited:
            return
        if self._limit is not None:
            self._limit.cancel()
        self._waited, self._limit = waited, None
        if seconds is not None:
            self._limit = self.loop.call_later(seconds, self._end_waiting, seconds)

    def _end_waiting(self, seconds: float, *, was_paused: bool = False) -> None:
        """Close the connection; one of which the service has not taken what came has more time."""
        paused = self.flow.read_paused
        if paused or was_paused:
            later = partial(self._end_waiting, seconds, was_paused=paused)
            self._limit = self.loop.call_later(seconds, later)
        else:
            self.transport.close()


def _require_tokens(settings: ServiceSettings) -> None:
    if settings.on_loopback:
        return
    now = datetime.now(UTC)
    with Registry(settings.home) as registry:
        if any(is_usable(token, now) for token in registry.tokens.all()):
            return
    raise SettingsError(
        f"others than this machine reach {settings.host}, and there is no token to let them in",
        hint="`survey token add NAME` makes one; without --host only this machine is answered",
    )


def _allow_most_files() -> None:
    """Let this process and those that it starts open as many files as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Some systems allow a process less than they say.
    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def _listening(settings: ServiceSettings) -> socket.socket:
    try:
        family, kind, *_, address = socket.getaddrinfo(
            settings.host, settings.port, type=socket.SOCK_STREAM
        )[0]
        listener = socket.socket(family, kind)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # From here on clients may come: they wait for the application.
        listener.listen(_WAITING_CLIENTS)
    except OSError as error:
        raise SettingsError(
            f"{settings.host}:{settings.port} cannot be listened at: {error.strerror or error}",
            hint="choose another --port, 0 for any that is free, or another --host",
        ) from error
    return listener


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
