"""Heads of Ray clusters for tests: processes of their own, each with its own token or none."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import ray
from ray.core.generated import gcs_service_pb2, gcs_service_pb2_grpc

from jobs.runners.ray import actor
from tests.waiting import until

#: What a token looks like; worth nothing elsewhere.
TOKEN = "0123456789abcdef" * 4

#: Starts a head without the server of Ray's client, which takes long to start.
START = """
from ray.scripts import scripts
scripts.get_ray_client_dependency_error = lambda: "not wanted"
scripts.main()
"""


@dataclass(frozen=True)
class StartedHead:
    """A head that runs."""

    process: subprocess.Popen[bytes]
    port: int
    folder: Path

    def gcs_pid(self) -> int:
        """Return the process that is the head proper."""
        for entry in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (entry / "cmdline").read_bytes()
                program = command.partition(b"\0")[0]
                if program.endswith(b"gcs_server") and f"{self.folder}/".encode() in command:
                    return int(entry.name)
        raise AssertionError(f"no gcs_server of {self.folder}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def head(token: str | None = None, cores: int = 1) -> Iterator[StartedHead]:
    """Start a head with so many cores, and end it; with a token it lets in who has it alone."""
    # A name of its own: Ray's sockets lie below, and their paths have to be short.
    with tempfile.TemporaryDirectory(prefix="ray-") as folder:
        yield from _started(Path(folder), token, cores)


def _started(folder: Path, token: str | None, cores: int) -> Iterator[StartedHead]:
    port = free_port()
    environment = {k: v for k, v in os.environ.items() if not k.startswith("RAY_AUTH")}
    environment |= {"HOME": str(folder), "RAY_AUTH_MODE": "token" if token else "disabled"}
    # Workers of surveys have an environment of their own: one started before would serve nobody.
    environment["RAY_prestart_worker_first_driver"] = "0"
    if token:
        environment["RAY_AUTH_TOKEN"] = token
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [
                *(sys.executable, "-c", START, "start", "--head", "--block"),
                *(f"--port={port}", "--include-dashboard=false", f"--num-cpus={cores}"),
                *("--object-store-memory=80000000", f"--temp-dir={folder}/ray"),
                *("--no-monitor", "--include-log-monitor=false", "--disable-usage-stats"),
            ],
            env=environment,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        _wait_for(process, port, folder)
        yield StartedHead(process, port, folder)
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def answer(address: str, token: str | None) -> grpc.StatusCode:
    """Ask a head what any client asks first, and return the status of its answer."""
    given = (("authorization", f"Bearer {token}"),) if token else ()
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        stub = gcs_service_pb2_grpc.NodeInfoGcsServiceStub(channel)
        try:
            stub.CheckAlive(gcs_service_pb2.CheckAliveRequest(), timeout=60, metadata=given)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


@contextlib.contextmanager
def dying_starts(count: int, of: Callable[[str], bool] = lambda _: True) -> Iterator[None]:
    """Kill the next workers, those on machines that are meant, before they are ready."""
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patched:
        # Travels to the workers as it is here, and not by its name.
        class Dying(actor.Worker):
            def describe_host(self, allow_cpu):
                died = [*Path(folder).iterdir()]
                if len(died) < count and of(ray.get_runtime_context().get_node_id()):
                    Path(folder, str(os.getpid())).touch()
                    os.kill(os.getpid(), signal.SIGKILL)
                return super().describe_host(allow_cpu)

        patched.setattr(actor, "Worker", Dying)
        yield


def _wait_for(process: subprocess.Popen[bytes], port: int, folder: Path) -> None:
    def is_up() -> bool:
        log = (folder / "log").read_bytes()
        assert process.poll() is None, f"no head on port {port}: {log.decode(errors='replace')}"
        # Said once the machine itself has joined the cluster.
        return b"Ray runtime started" in log

    until(is_up, pause=0.2)
