"""A cluster's head, asked directly: whether it is there, what it runs, which machines it knows.

Ray's own client waits for a head that does not answer, and after a minute ends the process without
a word; it never says whether a cluster would have let anybody in. These questions go to the same
service of the head with a time limit, and with the token only where it is passed.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import grpc
import ray
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

from jobs.planning.devices import Machine

#: Generated, and without types.
_messages: Any = gcs_service_pb2
_services: Any = gcs_service_pb2_grpc

#: How long an answer may take.
ANSWER_SECONDS = 5.0


class Silent(Exception):
    """Nobody answers there as the head of a Ray cluster."""


class Refused(Exception):
    """The head does not let us in: the token is missing or another one."""


@dataclass(frozen=True, slots=True)
class Versions:
    """What one side runs; both sides of a cluster have to run the same."""

    ray: str
    python: str

    def __str__(self) -> str:
        return f"Ray {self.ray} on Python {self.python}"


#: What this process runs.
HERE = Versions(ray.__version__, platform.python_version())


@dataclass(frozen=True)
class Head:
    """The head of a cluster.

    Parameters
    ----------
    address : str
        ``HOST:PORT``.
    token_header : mapping of str to str
        What proves that we may ask; empty to ask as a stranger would.
    """

    address: str
    token_header: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        # Never the token.
        return f"Head({self.address!r})"

    def versions(self) -> Versions:
        """Return what the cluster runs.

        Raises
        ------
        Silent
            If nobody answers.
        Refused
            If the head does not let us in.
        """
        request = _messages.InternalKVGetRequest(key=b"CLUSTER_METADATA", namespace=b"cluster")
        reply = self._ask(
            lambda channel: _services.InternalKVGcsServiceStub(channel).InternalKVGet,
            request,
        )
        try:
            said = json.loads(reply.value)
            return Versions(said["ray_version"], said["python_version"])
        except (ValueError, KeyError) as error:
            raise Silent("it does not say what it runs") from error

    def machines(self) -> list[Machine]:
        """Return the machines that are alive, in a fixed order.

        Raises
        ------
        Silent
            If nobody answers.
        Refused
            If the head does not let us in.
        """
        reply = self._ask(
            lambda channel: _services.NodeInfoGcsServiceStub(channel).GetAllNodeInfo,
            _messages.GetAllNodeInfoRequest(),
        )
        # State 0 is a node that is alive.
        found = [_machine(node) for node in reply.node_info_list if node.state == 0]
        return sorted((m for m in found if m.cores or m.gpus), key=lambda machine: machine.name)

    def _ask(self, method: Callable[[grpc.Channel], Any], request: Any) -> Any:
        # A proxy that the environment names has no business between the machines of a cluster.
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
    said = str(error.details() or error.code().name)
    # gRPC puts its own history before the cause.
    return said.rpartition(": ")[2].strip() or said
