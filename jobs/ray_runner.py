"""A runner on Ray: one actor a device, each streaming its events to the driver.

Actors are single-threaded and hold one job at a time. All state is in the driver's stores: an
actor that dies is replaced, and its job goes on from its last durable batch.
"""

from __future__ import annotations

import logging
import signal
import socket
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Self

import ray
from ray.exceptions import RayError, RayTaskError

from jobs.devices import Devices, choose_devices, local_cores
from jobs.events import Event, Failed, Finished, Lost
from jobs.job import Job, Progress
from jobs.runner import NextJob
from jobs.words import DeviceChoice
from survey import ClusterError

#: Events a worker may be ahead of the writer; what bounds memory when the store is slow.
AHEAD = 2

#: How long all workers may be silent before the cluster's machines are looked at.
NODE_CHECK_SECONDS = 15.0

#: How long a cluster's head may take to answer.
CONNECT_SECONDS = 10.0

#: Object store of a local Ray, in bytes: events are small.
OBJECT_STORE_BYTES = 256 * 1024**2


class RayRunner:
    """Runs jobs on Ray actors.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}
        ``auto`` takes the cluster's GPUs if it has any.
    workers : int, optional
        How many; by default one a GPU, or one on the CPU with all its cores.
    address : str, optional
        An existing cluster; by default a local Ray of its own is started and ended.
    """

    def __init__(
        self,
        device: DeviceChoice = "auto",
        workers: int | None = None,
        address: str | None = None,
    ) -> None:
        self._device, self._wanted, self._address = device, workers, address
        self._chosen: Devices | None = None
        self._slots: list[_Slot] = []

    @property
    def devices(self) -> Devices:
        """The workers; known once the runner is entered."""
        if self._chosen is None:
            raise ClusterError("the runner has not been entered")
        return self._chosen

    def __enter__(self) -> Self:
        _connect(self._address)
        try:
            gpus = int(ray.cluster_resources().get("GPU", 0))
            self._chosen = choose_devices(self._device, self._wanted, gpus, _cores_by_node())
        except BaseException:
            ray.shutdown()
            raise
        return self

    def __exit__(self, *exc: object) -> None:
        for slot in self._slots:
            slot.end()
        ray.shutdown()

    def run(self, next_job: NextJob) -> Iterator[tuple[int, Event]]:
        """Yield what the workers say, in the order it arrives."""
        self._slots = [_Slot(number, self.devices) for number in range(self.devices.workers)]
        while True:
            for slot in self._slots:
                if slot.stream is None and (assignment := next_job()) is not None:
                    slot.begin(*assignment)
            busy = {slot.stream: slot for slot in self._slots if slot.stream is not None}
            if not busy:
                return
            ready, _ = ray.wait(
                list(busy), num_returns=1, timeout=NODE_CHECK_SECONDS, fetch_local=False
            )
            if ready:
                slot = busy[ready[0]]
                yield slot.number, slot.take()
            elif not any(node["Alive"] for node in ray.nodes()):
                # A worker that waits for a machine that is gone would wait for ever.
                raise ClusterError(
                    "no machine of the Ray cluster is alive any more",
                    hint="run the same command again: it goes on where this one stopped",
                )


@dataclass
class _Slot:
    """One worker's place: its actor, its job, and the stream of what it says."""

    number: int
    devices: Devices
    actor: Any = None
    stream: Any = None
    run_id: str = ""

    def begin(self, job: Job, progress: Progress) -> None:
        if self.actor is None:
            self.actor = _start_actor(self.devices)
        self.run_id = job.run_id
        # Retrying inside Ray would mix the items of two attempts: a lost job is given out again
        # by the caller, which knows what is durable.
        method = self.actor.run_job.options(
            num_returns="streaming", _generator_backpressure_num_objects=AHEAD
        )
        self.stream = method.remote(job, progress, self.devices.torch_device, self.devices.threads)

    def take(self) -> Event:
        """Return the next event; a worker that died says so with its last one."""
        try:
            event: Event = ray.get(next(self.stream))
        except StopIteration:
            self.stream = None
            return Lost(self.run_id, "the worker ended without a result")
        except RayTaskError as error:
            # Our own code failed on that machine, such as an import: another try would too.
            self.end()
            message = _last_line(error)
            return Failed(self.run_id, "worker", message, "see survey doctor there", str(error))
        except RayError as error:
            self.end()
            return Lost(self.run_id, f"the worker died: {_first_line(error)}")
        if isinstance(event, (Finished, Failed)):
            self.stream = None
        return event

    def end(self) -> None:
        """End the actor, if there is one."""
        if self.actor is not None:
            ray.kill(self.actor)
        self.actor = self.stream = None


class _Worker:
    """The actor: a process of its own, with its own device."""

    def run_job(self, job: Job, progress: Progress, device: str, threads: int) -> Iterator[Event]:
        from jobs.worker import run_job

        yield from run_job(job, progress, device, threads)


def _start_actor(devices: Devices) -> Any:
    gpus = 1 if devices.kind == "cuda" else 0
    # Ray sets OMP_NUM_THREADS from num_cpus, at least 1: without this torch would run on one core.
    environment = {"OMP_NUM_THREADS": str(devices.threads)}
    kind = ray.remote(
        num_cpus=0 if gpus else devices.threads,
        num_gpus=gpus,
        max_restarts=0,
        max_task_retries=0,
        runtime_env={"env_vars": environment},
    )(_Worker)
    return kind.remote()


def _cores_by_node() -> list[int]:
    resources = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    return [int(found["CPU"]) for found in resources if found.get("CPU", 0) >= 1] or [1]


def _connect(address: str | None) -> None:
    """Start a local Ray, or join the cluster at an address."""
    if address is not None:
        _require_listening(address)
    # Ray takes the termination signal for itself and ends the process with a dump.
    main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM) if main else None
    try:
        if address is None:
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
        else:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (RayError, ConnectionError, RuntimeError, ValueError, OSError) as error:
        where = "a local Ray could not be started" if address is None else f"no Ray at {address!r}"
        raise ClusterError(
            f"{where}: {_first_line(error)}", hint="try --runner local, or see survey doctor"
        ) from error
    finally:
        if handler is not None:
            signal.signal(signal.SIGTERM, handler)


def _stay_on_loopback() -> None:
    # Ray turns 127.0.0.1 into the machine's outer address, and then listens on every interface,
    # in part without asking for its token. A local Ray has no business there.
    services = ray._private.services
    services.resolve_ip_for_localhost = lambda host: host


def _require_listening(address: str) -> None:
    """Refuse an address nobody listens at: Ray itself would go on trying without an end."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not port.isdigit() or not host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise ClusterError(
            f"no Ray at {address!r}: {error.strerror or error}",
            hint="ray status on the head says whether it runs; leave --address out for a local Ray",
        ) from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _last_line(error: BaseException) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[-1]
