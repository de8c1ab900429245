"""Joining a Ray cluster, or starting one on this machine that nobody else can reach.

Whoever reaches a Ray that asks for no token can run any code on it. What is started here asks for
one; a cluster that does not is joined on loopback alone, or where somebody says so.
"""

from __future__ import annotations

import ipaddress
import logging
import os
import signal
import socket
import threading
from typing import Any

import ray
from ray._common.network_utils import parse_address
from ray._private.utils import check_version_info
from ray.exceptions import AuthenticationError, RayError

from jobs.planning.devices import local_cores
from jobs.runners.ray.private import HERE, Head, Refused, Silent, Versions
from survey import ClusterError, SettingsError

#: Ray's compiled part, which says nothing of its types.
_raylet: Any = ray._raylet

#: How long a cluster's head may take to answer.
CONNECT_SECONDS = 10.0

#: Object store of a local Ray, in bytes: events are small.
OBJECT_STORE_BYTES = 256 * 1024**2

_HOW_TO_ENTER = (
    "set RAY_AUTH_TOKEN, or RAY_AUTH_TOKEN_PATH to a file, or copy the cluster's token to"
    " ~/.ray/auth_token; docs/clusters.md tells more"
)


def connect(address: str | None, *, insecure: bool = False) -> Head:
    """Start a local Ray, or join the cluster at an address.

    Parameters
    ----------
    address : str or None
        Where the cluster's head listens, ``HOST:PORT``; ``auto`` for the one this machine belongs
        to; None for a local Ray on loopback.
    insecure : bool
        Whether to join a cluster beyond loopback that asks nobody for a token.

    Returns
    -------
    Head
        The cluster's head, which answers at once or not at all.

    Raises
    ------
    SettingsError
        If that is no address.
    ClusterError
        If nobody answers there, the cluster is open or does not let us in, it runs other
        versions, or Ray cannot be started.
    """
    if address is not None:
        address = _resolved(address)
        _check(address, insecure=insecure)
    else:
        _speak("token")
    # Ray takes the termination signal for itself and ends the process with a dump.
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if main else None
    try:
        if address is None:
            _start()
        else:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = "a local Ray could not be started" if address is None else f"no Ray at {address!r}"
        raise ClusterError(
            f"{where}: {first_line(error)}", hint="try --runner local, or see survey doctor"
        ) from error
    finally:
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)
    return Head(ray.get_runtime_context().gcs_address, _token_header())


def token_source() -> str | None:
    """Return where a token for clusters comes from, never the token; None if there is none."""
    loader = _raylet.AuthenticationTokenLoader.instance()
    loader.reset_cache()
    try:
        if not loader.has_token(ignore_auth_mode=True):
            return None
    except AuthenticationError as error:
        raise ClusterError(first_line(error), hint=_HOW_TO_ENTER) from None
    # In the order in which Ray looks.
    given = (name for name in ("RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH") if os.environ.get(name))  # noqa: TID251 - Ray takes its token from nowhere else
    return next(given, "~/.ray/auth_token")


def first_line(error: BaseException) -> str:
    """Return what an error says, without its dump."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def last_line(error: BaseException) -> str:
    """Return the last line of what an error says: of another process's, the error itself."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]


def _start() -> None:
    """Start a Ray of our own."""
    # "local": without an address Ray would join whatever a stale file points to.
    _stay_on_loopback()
    ray.init(
        address="local",
        num_cpus=local_cores(),
        include_dashboard=False,
        _node_ip_address="127.0.0.1",
        object_store_memory=OBJECT_STORE_BYTES,
        _system_config={"enable_metrics_collection": False},
        log_to_driver=False,
        logging_level=logging.ERROR,
    )


def _speak(mode: str) -> None:
    """Speak to clusters with a token or without: Ray wants the same on both sides."""
    os.environ["RAY_AUTH_MODE"] = mode  # noqa: TID251 - Ray takes it from nowhere else
    _raylet.Config.initialize("")
    _raylet.AuthenticationTokenLoader.instance().reset_cache()


def _token_header() -> tuple[tuple[str, str], ...]:
    if token_source() is None:
        return ()
    return tuple(_raylet.AuthenticationTokenLoader.instance().get_token_for_http_header().items())


def _resolved(address: str) -> str:
    """Return the host and port that an address means."""
    found = address
    if found == "auto":
        try:
            found = ray._private.services.get_ray_address_from_environment("auto", None)
        except ConnectionError:
            raise ClusterError(
                "no Ray runs on this machine: --address auto means the cluster it belongs to",
                hint="name the head as HOST:PORT, or leave --address out for a local Ray",
            ) from None
    if "://" in found:
        raise SettingsError(
            f"the address is {found!r}, must be HOST:PORT or auto: a Ray client does not stream"
            " what workers say",
            hint="run the survey on a machine of the cluster, with --address auto",
        )
    host, port = parse_address(found) or ("", "")
    if not host or not port.isdigit() or not 0 < int(port) < 2**16:
        raise SettingsError(
            f"the address is {found!r}, must be HOST:PORT or auto",
            hint="a head listens on port 6379 unless it was started with another one",
        )
    return found


def _check(address: str, *, insecure: bool) -> None:
    """Refuse an address that Ray would try without an end, or join where it had better not."""
    host, port = parse_address(address)
    _require_listening(address, host, int(port))
    head = Head(address)
    try:
        versions = head.versions()
    except Refused:
        versions = _versions_with_token(address)
        _speak("token")
    except Silent as error:
        raise ClusterError(
            f"no Ray at {address!r}: something listens there, but not as a cluster's head: {error}",
            hint="name the port of the head itself, 6379 unless it was started with another one",
        ) from None
    else:
        if not insecure and not _is_loopback(host):
            raise ClusterError(
                f"the Ray cluster at {address!r} asks nobody for a token: whoever reaches it can"
                " run any code there, and read what this survey sends",
                hint="start it with RAY_AUTH_MODE=token (docs/clusters.md); --insecure joins it"
                " as it is",
            )
        _speak("disabled")
    _require_same(versions, address)


def _versions_with_token(address: str) -> Versions:
    header = _token_header()
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


def _require_same(versions: Versions, address: str) -> None:
    said = {"ray_version": versions.ray, "python_version": versions.python}
    try:
        check_version_info(said, "this process")
    except RuntimeError:
        raise ClusterError(
            f"the cluster at {address!r} runs {versions}, this process {HERE}: they must be equal",
            hint="install the same requirements.lock with the same Python on every machine",
        ) from None


def _is_loopback(host: str) -> bool:
    """Tell whether a host is this machine and nothing that others reach."""
    found = {entry[4][0] for entry in socket.getaddrinfo(host, None)}
    return all(ipaddress.ip_address(str(one).partition("%")[0]).is_loopback for one in found)


def _stay_on_loopback() -> None:
    # Ray turns 127.0.0.1 into the machine's outer address, and then listens on every interface,
    # in part without asking for its token. A local Ray has no business there.
    services = ray._private.services
    services.resolve_ip_for_localhost = lambda host: host


def _require_listening(address: str, host: str, port: int) -> None:
    """Refuse an address nobody listens at: Ray itself would go on trying without an end."""
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray at {address!r}: {error.strerror or error}",
            hint="ray status on the head says whether it runs; leave --address out for a local Ray",
        ) from error
    outer = ray._private.services.resolve_ip_for_localhost(host)
    if outer != host and not _answers(outer, port):
        _stay_on_loopback()


def _answers(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True
