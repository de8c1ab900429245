"""The server: it listens, answers until it is told to stop, and lets requests finish."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, suppress
from datetime import UTC, datetime
from types import FrameType

import uvicorn
from fastapi import FastAPI

from catalog.registry.registry import Registry
from catalog.registry.tokens import is_usable
from jobs.service.application import make_application
from jobs.service.settings import ServiceSettings
from survey.errors import SettingsError

#: Connections that wait to be accepted.
_WAITING_CLIENTS = 1024


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
    with closing(_listening(settings)) as listener:
        app = make_application(settings)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="on",
            backlog=_WAITING_CLIENTS,
            # Whoever sends them could choose the address that wrong tokens are counted for.
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=settings.stop_seconds,
            ws="none",
        )
        app.state.first_copy.begin(settings.home)
        # Beside that copy: whoever asks first would wait for them.
        app.state.renderer.load()
        app.state.queries.prepare()
        say(f"listening at {_url(listener)}")
        # It finishes what is under way, and then repeats the signal that stopped it.
        with beside, suppress(KeyboardInterrupt):
            _Server(config, app).run([listener])


class _Server(uvicorn.Server):
    """A server whose streams, which have no end, end once it is told to stop."""

    def __init__(self, config: uvicorn.Config, app: FastAPI) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Tell the streams, then let requests finish."""
        self._app.state.stopping = True
        super().handle_exit(sig, frame)


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
