"""Ray's private parts: the only file that uses them, so that a new minor version is checked here.

Tokens and addresses come from the functions that Ray itself uses. A cluster's head is asked over
gRPC, with a time limit and with the token only where it is passed: Ray's own client waits for a
head that does not answer, after a minute ends the process without an error, and never tells
whether a cluster asks for a token.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import grpc
import ray
from ray._common.network_utils import parse_address
from ray._private import services, worker
from ray._private.utils import check_version_info
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

from jobs.planning.worker_layout import Machine

#: Generated or compiled, and without types.
_messages: Any = gcs_service_pb2
_stubs: Any = gcs_service_pb2_grpc
_raylet: Any = ray._raylet
_services: Any = services
_worker: Any = worker

#: Seconds that the head may take to answer.
ANSWER_SECONDS = 5.0


#: Environment variables that keep Ray's monitor and dashboard from serving their metrics to all who
#: ask: no port has that number, and they go on without.
NO_METRICS = {"AUTOSCALER_METRIC_PORT": "-1", "DASHBOARD_METRIC_PORT": "-1"}


class Silent(Exception):
    """No head of a Ray cluster answers there."""


class Refused(Exception):
    """The head refuses the token, or the lack of one."""


@dataclass(frozen=True)
class Head:
    """The head of a cluster.

    Its methods raise ``Silent`` if no head answers, and ``Refused`` if the head refuses the token,
    or the lack of one.

    Parameters
    ----------
    address : str
        ``HOST:PORT``.
    token_header : tuple of (str, str)
        The token as an HTTP header; empty to ask without one.
    """

    address: str
    token_header: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    def versions(self) -> dict[str, str]:
        """Return the versions of Ray and Python that the cluster runs."""
        request = _messages.InternalKVGetRequest(key=b"CLUSTER_METADATA", namespace=b"cluster")
        reply = self._ask(
            lambda channel: _stubs.InternalKVGcsServiceStub(channel).InternalKVGet,
            request,
        )
        try:
            metadata = json.loads(reply.value)
            return {name: metadata[name] for name in ("ray_version", "python_version")}
        except (ValueError, KeyError) as error:
            raise Silent("it does not tell its versions") from error

    def machines(self) -> list[Machine]:
        """Return the machines that are alive, in a fixed order."""
        reply = self._ask(
            lambda channel: _stubs.NodeInfoGcsServiceStub(channel).GetAllNodeInfo,
            _messages.GetAllNodeInfoRequest(),
        )
        # State 0 is a node that is alive.
        alive = [_machine(node) for node in reply.node_info_list if node.state == 0]
        return sorted((m for m in alive if m.cores or m.gpus), key=lambda machine: machine.name)

    def _ask(self, method: Callable[[grpc.Channel], Any], request: Any) -> Any:
        # Machines of a cluster do not reach each other through the environment's proxy.
        options = [("grpc.enable_http_proxy", 0), ("grpc.max_receive_message_length", -1)]
        with grpc.insecure_channel(self.address, options=options) as channel:
            try:
                return method(channel)(request, timeout=ANSWER_SECONDS, metadata=self.token_header)
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.UNAUTHENTICATED:
                    raise Refused from None
                raise Silent(_reason(error)) from None


def _machine(node: Any) -> Machine:
    resources = node.resources_total
    cores, gpus, memory = (int(resources.get(name, 0)) for name in ("CPU", "GPU", "memory"))
    return Machine(node.node_id.hex(), cores, gpus, memory)


def _reason(error: grpc.RpcError) -> str:
    text = str(error.details() or error.code().name)
    # gRPC puts its own history before the cause.
    return text.rpartition(": ")[2].strip() or text


def read_environment() -> None:
    """Let Ray read anew from the environment whether it uses a token, and which."""
    _raylet.Config.initialize("")
    _token_loader()


def token_header() -> tuple[tuple[str, str], ...]:
    """Return the token as an HTTP header; empty without one.

    Raises
    ------
    ray.exceptions.AuthenticationError
        If the file that should hold it cannot be read.
    """
    loader = _token_loader()
    # Asking first makes the loader read the token in every mode.
    if not loader.has_token(ignore_auth_mode=True):
        return ()
    return tuple(loader.get_token_for_http_header().items())


def _token_loader() -> Any:
    loader = _raylet.AuthenticationTokenLoader.instance()
    loader.reset_cache()
    return loader


def environment_address() -> str:
    """Return the address of the cluster that this machine belongs to.

    Raises
    ------
    ConnectionError
        If it belongs to none.
    """
    return str(_services.get_ray_address_from_environment("auto", None))


def host_and_port(address: str) -> tuple[str, str]:
    """Return the two parts of ``HOST:PORT``; empty where the address has another form."""
    host, port = parse_address(address) or ("", "")
    return host, port


def outer_address(host: str) -> str:
    """Return the address that Ray uses for a host: of loopback, the machine's outer one."""
    return str(_services.resolve_ip_for_localhost(host))


def stay_on_loopback() -> None:
    """Let Ray use 127.0.0.1 as it is.

    It would otherwise take the machine's outer address and listen on every interface, in part
    without asking for its token.
    """
    _services.resolve_ip_for_localhost = lambda host: host


def silence() -> None:
    """Keep Ray's lines about its processes out of this one's output; workers' events tell them."""
    _worker._worker_logs_enabled = False


def require_same(versions: dict[str, str]) -> None:
    """Refuse a cluster of other versions than this process runs.

    Raises
    ------
    RuntimeError
        With the versions of both.
    """
    check_version_info(versions, "this machine")
