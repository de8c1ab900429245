"""Joining a Ray cluster, or starting a local one that no other machine or user can reach.

Whoever reaches a Ray that asks for no token can run any code on it. A local Ray asks for one that
is its own; a cluster that does not is joined on loopback alone, or with ``--insecure``.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import secrets
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import ray
from ray.exceptions import AuthenticationError

from jobs.runners.ray import private
from jobs.runners.ray.private import Head, Refused, Silent
from jobs.runners.ray.session_folder import session_folder
from survey import ClusterError, SettingsError
from survey.cores import local_cores
from survey.text import first_line

#: Seconds that connecting to a cluster's head may take.
CONNECT_SECONDS = 10.0

#: Object store of a local Ray, in bytes: events are small.
OBJECT_STORE_BYTES = 256 * 1024**2

_HOW_TO_ENTER = (
    "set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH to a file, or copy the cluster's token to"
    " ~/.ray/auth_token; see docs/clusters.md"
)


@contextmanager
def connected(address: str | None, *, insecure: bool = False) -> Iterator[Head]:
    """Start a local Ray and end it, or join the cluster at an address and leave it.

    Parameters
    ----------
    address : str or None
        Where the cluster's head listens, ``HOST:PORT``; ``auto`` for the one this machine belongs
        to; None for a local Ray on loopback.
    insecure : bool
        Whether to join a cluster beyond loopback that asks for no token.

    Yields
    ------
    Head
        The cluster's head.

    Raises
    ------
    SettingsError
        If that is no address.
    ClusterError
        If no head answers there, the cluster asks for no token or refuses ours, it runs other
        versions, or Ray cannot be started.
    """
    private.silence()
    with ExitStack() as left:
        if address is not None:
            address = _resolved(address)
            left.enter_context(_environment(RAY_AUTH_MODE=_mode(address, insecure=insecure)))
        try:
            start = {"address": address} if address else left.enter_context(_local())
            # Also after a start that was interrupted, and before the processes' folder is removed.
            left.callback(ray.shutdown, wait_for_processes=True)
            _init(start)
        # Bare ones too: Ray raises one where its processes take half a minute to come up.
        except Exception as error:
            what = f"no Ray at {address!r}" if address else "a local Ray could not be started"
            raise ClusterError(
                f"{what}: {first_line(error)}", hint="try --runner local, or see survey doctor"
            ) from error
        yield Head(ray.get_runtime_context().gcs_address, private.token_header())


def token_source() -> str | None:
    """Return where the token for clusters comes from, never the token; None if there is none.

    Raises
    ------
    ClusterError
        If it cannot be read.
    """
    try:
        if not private.token_header():
            return None
    except AuthenticationError as error:
        raise ClusterError(first_line(error), hint=_HOW_TO_ENTER) from None
    # In the order in which Ray looks.
    variables = ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
    named = (name for name in variables if os.environ.get(name))  # noqa: TID251 - Ray takes its token from nowhere else
    return next(named, "~/.ray/auth_token")


def exposed_token() -> Path | None:
    """Return the file that the token for clusters comes from, if other users can read it."""
    files = {
        "RAY_AUTH_TOKEN_PATH": os.environ.get("RAY_AUTH_TOKEN_PATH"),  # noqa: TID251 - Ray's own
        "~/.ray/auth_token": "~/.ray/auth_token",
    }
    name = files.get(token_source() or "")
    path = Path(name).expanduser() if name else None
    return path if path and path.stat().st_mode & 0o077 else None


def last_line(error: BaseException) -> str:
    """Return the last line of an error's message: the cause, where it is of another process."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def _init(start: dict[str, Any]) -> None:
    """Start or join Ray."""
    # Ray takes the termination signal for itself and ends the process with a dump.
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if main else None
    try:
        ray.init(**start, log_to_driver=False, logging_level=logging.ERROR)
    except SystemExit:
        # From its handler: the signal came meanwhile, and ours says what follows.
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)
            signal.raise_signal(signal.SIGTERM)
        raise
    finally:
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


@contextmanager
def _local() -> Iterator[dict[str, Any]]:
    """Yield what starts a local Ray."""
    private.stay_on_loopback()
    # A token of its own: the user's may be known to others, and Ray writes one that all can read.
    closed = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    with session_folder() as folder, _environment(**closed, **private.NO_METRICS):
        # "local": without an address Ray would join whatever a stale file points to.
        yield {
            "address": "local",
            "num_cpus": local_cores(),
            "include_dashboard": False,
            "_node_ip_address": "127.0.0.1",
            "_temp_dir": str(folder),
            "object_store_memory": OBJECT_STORE_BYTES,
            "_system_config": {
                "enable_metrics_collection": False,
                # Ours have an environment of their own: those started before would serve nobody.
                "prestart_worker_first_driver": False,
            },
        }


@contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set what Ray and its processes take from the environment alone."""
    environment = os.environ  # noqa: TID251 - as the sentence above says
    before = {name: environment[name] for name in variables if name in environment}
    environment.update(variables)
    private.read_environment()
    try:
        yield
    finally:
        for name in variables:
            del environment[name]
        environment.update(before)
        private.read_environment()


def _resolved(address: str) -> str:
    """Return an address as host and port; of ``auto``, those of this machine's cluster."""
    if address == "auto":
        try:
            address = private.environment_address()
        except ConnectionError:
            raise ClusterError(
                "no Ray runs on this machine: --address auto means the cluster it belongs to",
                hint="name the head as HOST:PORT, or leave --address out for a local Ray",
            ) from None
    if "://" in address:
        raise SettingsError(
            f"the address is {address!r}, must be HOST:PORT or auto: a Ray client does not stream"
            " workers' events",
            hint="run the survey on a machine of the cluster, with --address auto",
        )
    host, port = private.host_and_port(address)
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise SettingsError(
            f"the address is {address!r}, must be HOST:PORT or auto",
            hint="a head listens on port 6379 unless it was started with another one",
        )
    return address


def _mode(address: str, *, insecure: bool) -> str:
    """Return whether a cluster asks for a token, as Ray names it: it wants both sides to agree.

    Refuses an address that Ray would try for ever, and a cluster that is not safe to join.
    """
    host, port = private.host_and_port(address)
    _require_listening(address, host, int(port))
    mode = "disabled"
    try:
        versions = Head(address).versions()
    except Refused:
        versions, mode = _versions_with_token(address), "token"
    except Silent as error:
        raise ClusterError(
            f"no Ray at {address!r}: something listens there, but not as a cluster's head: {error}",
            hint="name the port of the head itself, 6379 unless it was started with another one",
        ) from None
    else:
        if not insecure and not _is_loopback(host):
            raise ClusterError(
                f"the Ray cluster at {address!r} asks for no token: whoever reaches it can"
                " run any code there, and read what this survey sends",
                hint="start it with RAY_AUTH_MODE=token (docs/clusters.md); --insecure joins it"
                " as it is",
            )
    try:
        private.require_same(versions)
    except RuntimeError as error:
        raise ClusterError(
            f"the cluster at {address!r} cannot be joined: {' '.join(str(error).split())}",
            hint="install the same requirements.lock with the same Python on every machine",
        ) from None
    return mode


def _versions_with_token(address: str) -> dict[str, str]:
    header = private.token_header() if token_source() else ()
    if not header:
        raise ClusterError(
            f"the Ray cluster at {address!r} asks for a token, and there is none here",
            hint=_HOW_TO_ENTER,
        )
    try:
        return Head(address, header).versions()
    except Refused:
        raise ClusterError(
            f"the Ray cluster at {address!r} does not take the token from {token_source()}",
            hint=_HOW_TO_ENTER,
        ) from None
    except Silent as error:
        raise ClusterError(f"no Ray at {address!r}: {error}", hint="try again") from None


def _is_loopback(host: str) -> bool:
    """Return whether a host is this machine and cannot be reached from others."""
    addresses = {str(entry[4][0]) for entry in socket.getaddrinfo(host, None)}
    return all(ipaddress.ip_address(each.partition("%")[0]).is_loopback for each in addresses)


def _require_listening(address: str, host: str, port: int) -> None:
    """Refuse an address where nothing listens: Ray itself would try it for ever."""
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray at {address!r}: {error.strerror or error}",
            hint="ray status on the head says whether it runs; leave --address out for a local Ray",
        ) from error
    outer = private.outer_address(host)
    if outer != host:
        try:
            socket.create_connection((outer, port), CONNECT_SECONDS).close()
        except OSError:
            private.stay_on_loopback()
