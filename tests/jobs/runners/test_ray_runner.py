"""The local Ray: who can reach it, what it leaves behind, and what it prints."""

from __future__ import annotations

import json
import os
import stat
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest
import ray
from ray._private import worker

from jobs.planning.worker_layout import Devices, Machine
from jobs.runners.events import Host, Lost
from jobs.runners.options import RunnerOptions
from jobs.runners.ray import actor, runner, worker_handle
from jobs.runners.ray.runner import (
    LOST_STARTS,
    MACHINES_SECONDS,
    WORKERLESS_SECONDS,
    RayRunner,
)
from jobs.runners.ray.session_folder import MARK, PREFIX, SOCKET, SOCKET_BYTES, session_folder
from jobs.runners.ray.worker_handle import DiedStarting, WorkerHandle
from survey import ClusterError, SettingsError
from tests.acceptance.test_real_data import descendants
from tests.jobs.jobs import ON_CPU
from tests.jobs.runners.ray_heads import TOKEN, answer
from tests.style.repository import ROOT

LISTENING = "0A"

#: A user who has no right to anything here.
NOBODY = 65534

#: As that user, tries all doors of a session's folder and all ports; prints what came of each.
INTRUDER = f"""
import http.client, json, os, socket, sys
from pathlib import Path
from tests.jobs.runners.ray_heads import answer

session, pid, *ports = sys.argv[1:]
session = Path(session)
outer = session.parents[1]
os.setgroups([])
os.setgid({NOBODY})
os.setuid({NOBODY})

def connect():
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(str(session / "sockets" / "raylet"))

def asked(port):
    connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=20)
    try:
        connection.request("GET", "/metrics")
        return connection.getresponse().status
    except (OSError, http.client.HTTPException):
        return answer(f"127.0.0.1:{{port}}", None).name

doors = dict(
    outer=lambda: os.listdir(outer),
    session=lambda: os.listdir(session),
    log=lambda: (session / "logs" / "raylet.out").read_bytes(),
    write=lambda: (session / "mine").touch(),
    replace=lambda: outer.rename(outer.with_name("mine")),
    connect=connect,
    token=lambda: Path("/proc", pid, "environ").read_bytes(),
)
opened = []
for name, door in doors.items():
    try:
        door()
        opened.append(name)
    except PermissionError:
        pass
print(json.dumps([opened, [asked(port) for port in ports]]))
"""

#: Begins a session and waits to be killed.
HOLDING = """
import time
from jobs.runners.ray.session_folder import session_folder
with session_folder() as folder:
    print(folder, flush=True)
    time.sleep(600)
"""


def listening(family: str) -> dict[str, tuple[str, int]]:
    """Return the address and port each listening socket of the machine is bound to, by inode."""
    lines = [line.split() for line in Path(f"/proc/net/{family}").read_text().splitlines()[1:]]
    bound = {line[9]: line[1].split(":") for line in lines if line[3] == LISTENING}
    return {inode: (address, int(port, 16)) for inode, (address, port) in bound.items()}


def sockets(pid: int) -> set[str]:
    """Return the inodes of a process's sockets."""
    inodes = set()
    for entry in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            target = str(entry.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return inodes


@dataclass(frozen=True)
class Local:
    """A local Ray that runs."""

    #: The folder of its session, as Ray names it.
    session: Path
    #: The address of its head.
    address: str
    token: str

    @staticmethod
    def ports() -> set[tuple[str, str, int]]:
        """Return what its processes listen on: family, address and port of each."""
        ours = set().union(*(sockets(pid) for pid in descendants(os.getpid())))
        return {
            (family, *bound)
            for family in ("tcp", "tcp6")
            for inode, bound in listening(family).items()
            if inode in ours
        }


@pytest.fixture(scope="module")
def local():
    """One for all, started as a survey without an address does, whatever the environment says."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("RAY_AUTH_TOKEN", TOKEN)
        patched.setenv("RAY_AUTH_MODE", "disabled")
        with RayRunner(ON_CPU):
            ray.get(ray.remote(lambda: 1).remote())
            session = Path(worker._global_node.address_info["session_dir"])
            address = ray.get_runtime_context().gcs_address
            yield Local(session, address, os.environ["RAY_AUTH_TOKEN"])
        assert not session.parents[1].exists()
        assert (os.environ["RAY_AUTH_TOKEN"], os.environ["RAY_AUTH_MODE"]) == (TOKEN, "disabled")


@pytest.mark.ray
def test_a_local_ray_listens_on_loopback_alone(local):
    bound = {(family, address) for family, address, _ in local.ports()}
    assert bound
    loopback6 = {"00000000000000000000000001000000", "0000000000000000FFFF00000100007F"}
    assert bound <= {("tcp", "0100007F"), *(("tcp6", address) for address in loopback6)}


@pytest.mark.ray
def test_a_local_ray_refuses_a_client_without_its_own_token(local):
    assert local.address.startswith("127.0.0.1:")
    for token in (None, "f" * 64, TOKEN):
        assert answer(local.address, token) is grpc.StatusCode.UNAUTHENTICATED
    assert answer(local.address, local.token) is grpc.StatusCode.OK


@pytest.mark.ray
def test_the_folder_of_a_local_ray_is_its_users_alone(local):
    outer = local.session.parents[1].stat()
    # Below it Ray makes folders that all could write to.
    assert (outer.st_uid, stat.S_IMODE(outer.st_mode)) == (os.getuid(), 0o700)


@pytest.mark.ray
def test_the_token_of_a_local_ray_lies_in_no_file_of_its_session(local):
    files = [path for path in local.session.parents[1].rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if local.token.encode() in path.read_bytes()]


@pytest.mark.ray
@pytest.mark.skipif(os.getuid() != 0, reason="only root becomes another user")
def test_another_user_gets_nothing_of_a_local_ray(local):
    head = next(pid for pid in descendants(os.getpid()) if "gcs_server" in command(pid))
    ports = sorted({str(port) for _, _, port in local.ports()})
    tried = subprocess.run(
        [sys.executable, "-c", INTRUDER, str(local.session), str(head), *ports],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    opened, answers = json.loads(tried.stdout)
    assert opened == []
    # Some serve no such question, be it with a token.
    assert set(answers) <= {401, "UNAUTHENTICATED", "UNIMPLEMENTED"}
    assert {401, "UNAUTHENTICATED"} <= set(answers)


def command(pid: int) -> str:
    """Return a process's command line; nothing where it ended meanwhile."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


@pytest.mark.ray
def test_a_worker_that_dies_prints_nothing(local, capfd):
    mortal = ray.remote(type("Mortal", (), {"end": lambda _: os.kill(os.getpid(), 9)})).remote()
    with pytest.raises(ray.exceptions.RayError):
        ray.get(mortal.end.remote())
    time.sleep(2)  # until Ray would have told
    assert capfd.readouterr() == ("", "")


@pytest.mark.ray
def test_a_worker_keeps_what_a_pass_frees_until_it_ends(local):
    def passes(task, device, threads, heartbeat):
        import resource

        import torch

        from jobs.runners.freed_memory import kept_memory, return_freed_memory
        from jobs.runners.worker_host import peak_memory, reset_peak_memory

        def faults():
            before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
            blocks = [torch.ones(12_000_000) for _ in range(4)]
            del blocks
            return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

        def held():
            reset_peak_memory(torch.device(device))
            return peak_memory(torch.device(device))

        with kept_memory():
            seen = [faults() for _ in range(12)]
            before = held()
            return_freed_memory()
            returned = before - held()
        faults()
        yield (*seen, faults()), returned

    machine = ray.get_runtime_context().get_node_id()
    started = actor.start_worker(Devices("cpu", 1, threads=1), machine, passes)
    sent = started.run_tasks.options(num_returns="streaming").remote((None,))
    # Heartbeats come before it on a busy machine.
    (first, *later, after), returned = next(chain.from_iterable(ray.get(each)[0] for each in sent))
    ray.kill(started)
    # 192 MB are 46,875 pages of 4 KiB. The first few passes may begin in other threads' memory,
    # and any may have lost the place of one block of the four to another thread's few bytes.
    assert first > 40_000
    assert min(later) < 1_000
    assert statistics.median(later) < 12_000
    assert returned > 180e6
    assert after > 30_000


@pytest.fixture
def temporary(monkeypatch):
    """A temporary folder with a path as short as the machine's own."""
    with tempfile.TemporaryDirectory(prefix="t-") as folder:
        monkeypatch.setenv("TMPDIR", folder)
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_a_session_folder_goes_with_its_session_however_that_ends(temporary):
    with session_folder() as folder:
        assert folder.is_relative_to(temporary)
        (folder / "deeper").mkdir()
    with pytest.raises(KeyboardInterrupt), session_folder():
        raise KeyboardInterrupt
    assert list(temporary.iterdir()) == []


def test_the_folder_of_a_killed_session_is_removed_by_the_next_and_no_other(temporary):
    others = [temporary / f"{PREFIX}{name}" for name in ("of-a-user", "of-another")]
    for other in others:
        (other / "ray").mkdir(parents=True)
    (others[1] / MARK).touch()
    if os.getuid() == 0:
        os.chown(others[1], NOBODY, NOBODY)
    else:
        others.pop()
    holding = subprocess.Popen(
        [sys.executable, "-c", HOLDING], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        held = Path(holding.stdout.readline().strip())
        with session_folder():
            assert held.exists()
    finally:
        holding.kill()
        holding.communicate()
    assert held.exists()
    with session_folder() as folder:
        assert {*temporary.iterdir()} == {*others, folder.parent}


def test_a_temporary_folder_too_deep_for_sockets_is_passed_by(temporary, monkeypatch):
    deep = temporary / ("x" * (SOCKET_BYTES - len(SOCKET)))
    deep.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(deep))
    with session_folder() as folder:
        assert not folder.is_relative_to(deep)
        assert len(str(folder.parent / SOCKET)) <= SOCKET_BYTES


#: A source without tasks, to which a lost one may come back.
NOTHING = SimpleNamespace(
    next_tasks=lambda _: (), is_withdrawn=lambda _: False, is_over=lambda: False
)


def starts(monkeypatch, deaths: dict[str, int], machines: int, **options) -> list[str]:
    """Run without tasks on machines a, b, ... that lose so many workers; return where it tried."""
    tried: list[str] = []

    class Frail(WorkerHandle):
        def start(self):
            tried.append(self.machine)
            self._actor, self.awaited = self, object()

        def take(self):
            if tried.count(self.machine) <= deaths.get(self.machine, 0):
                raise DiedStarting("killed", hint="memory")
            self.awaited, self.host = None, Host("cpu", "", 1, self.machine, 1)
            return ()

    monkeypatch.setattr(runner, "WorkerHandle", Frail)
    monkeypatch.setattr(runner.ray, "wait", lambda references, **_: (references, []))
    made = RayRunner(RunnerOptions(device="cpu", **options))
    made._alive = lambda: [Machine(name, 1) for name in "abcd"[:machines]]
    made.devices = Devices("cpu", options.get("workers", machines), 1)
    try:
        assert list(chain.from_iterable(made.run(NOTHING))) == []
    except ClusterError as error:
        tried += [error.hint] * ("killed" in error.message)
    return tried


@pytest.mark.parametrize(
    ("deaths", "machines", "options", "tried"),
    [
        ({"a": 1}, 1, {}, "aa"),
        ({"a": LOST_STARTS - 1}, 1, {}, "a" * LOST_STARTS),
        ({"a": 99}, 2, {"workers": 1}, "ab"),
        ({"a": 99, "b": 1}, 2, {"workers": 1}, "abab"),
        ({"a": 99, "b": 99, "c": 99}, 3, {"workers": 1}, [*("abc" * LOST_STARTS), "memory"]),
        ({"a": 99}, 1, {}, [*("a" * LOST_STARTS), "memory"]),
    ],
)
def test_a_worker_that_dies_while_starting_is_tried_elsewhere(
    deaths, machines, options, tried, monkeypatch
):
    assert starts(monkeypatch, deaths, machines, **options) == list(tried)


@pytest.fixture
def clock(monkeypatch):
    """A clock that only sleeping moves on."""
    clock = SimpleNamespace(now=100.0, monotonic=lambda: clock.now)
    clock.sleep = lambda seconds: setattr(clock, "now", clock.now + seconds)
    monkeypatch.setattr(runner, "time", clock)
    monkeypatch.setattr(worker_handle, "time", clock)
    return clock


HEAD, NODE, NEW = Machine("head", 16), Machine("node", 16, gpus=1), Machine("new", 16, gpus=1)


@pytest.mark.parametrize("left", [[HEAD], []])
@pytest.mark.parametrize(("address", "patience"), [("auto", WORKERLESS_SECONDS), (None, 0.0)])
def test_a_cluster_that_keeps_no_machine_for_its_workers_ends_the_scan(
    clock, monkeypatch, left, address, patience
):
    monkeypatch.setattr(WorkerHandle, "start", lambda _: None)
    present = [HEAD, NODE]
    made = RayRunner(RunnerOptions(address=address))
    made._alive = lambda: present
    made.devices = Devices("cuda", 1, 16)
    for _ in islice(rounds := made.run(NOTHING), 20):
        assert [each.machine for each in made._workers] == ["node"]
    lost_at, present = clock.now, left
    with pytest.raises(ClusterError) as caught:
        list(islice(rounds, 10_000))
    assert caught.value.exit_code == 3
    assert clock.now - lost_at == pytest.approx(patience, abs=2 * MACHINES_SECONDS)


@pytest.mark.parametrize("dies", [False, True])
def test_a_machine_that_is_replaced_is_waited_for(clock, monkeypatch, dies):
    class Started(WorkerHandle):
        def start(self):
            self.awaited = self.machine if dies else None

        def take(self):
            raise DiedStarting("its machine is gone")

    def gone(references, **_):
        lost = [name for name in references if name not in {each.name for each in present}]
        clock.sleep(0 if lost else runner.ROUND_SECONDS)
        return lost, []

    monkeypatch.setattr(runner, "WorkerHandle", Started)
    monkeypatch.setattr(runner.ray, "wait", gone)
    made = RayRunner(RunnerOptions(address="auto"))
    made._alive = lambda: [HEAD, *present]
    made.devices = Devices("cuda", 1, 16)
    rounds = made.run(NOTHING)
    # Each is gone for a while that ends in time, and goes between two looks at the machines.
    for present in ([NODE], [], [NEW], [], [NODE]):
        until = clock.now + WORKERLESS_SECONDS - 2.5 * MACHINES_SECONDS
        while clock.now < until:
            next(rounds)
        assert [each.machine for each in made._workers] == [each.name for each in present]


def test_a_machine_is_no_longer_waited_for_once_all_runs_are_cancelled(clock, monkeypatch):
    monkeypatch.setattr(WorkerHandle, "start", lambda _: None)
    present, cancelled_at = [HEAD, NODE], clock.now + 100.0
    made = RayRunner(RunnerOptions(address="auto"))
    made._alive = lambda: present
    made.devices = Devices("cuda", 1, 16)
    source = SimpleNamespace(
        next_tasks=lambda _: (),
        is_withdrawn=lambda _: False,
        is_over=lambda: clock.now >= cancelled_at,
    )
    rounds = made.run(source)
    next(rounds)
    present = [HEAD]
    assert list(chain.from_iterable(rounds)) == []
    assert clock.now == pytest.approx(cancelled_at, abs=2 * MACHINES_SECONDS)


def test_a_machine_that_is_lost_once_nothing_is_left_to_do_is_not_missed(clock, monkeypatch):
    class Done(WorkerHandle):
        def start(self):
            self._actor, self.awaited = self, object()

        def take(self):
            self.awaited, self.host = None, Host("cuda", "", 1, self.machine, 1)
            clock.sleep(MACHINES_SECONDS)
            present.clear()
            return ()

    monkeypatch.setattr(runner, "WorkerHandle", Done)
    monkeypatch.setattr(runner.ray, "kill", lambda _: None)
    monkeypatch.setattr(runner.ray, "wait", lambda references, **_: (references, []))
    present = [NODE]
    made = RayRunner()
    made._alive = lambda: list(present) or [HEAD]
    made.devices = Devices("cuda", 1, 16)
    assert list(chain.from_iterable(made.run(NOTHING))) == []


def test_a_worker_hangs_only_while_it_is_watched(clock, monkeypatch):
    """The time that storing its events takes is not its own."""

    class Silent(WorkerHandle):
        def start(self):
            self._actor, self.awaited = self, object()

        def begin(self, tasks):
            self._actor = SimpleNamespace(run_tasks=SimpleNamespace(options=lambda **_: self))
            super().begin(tasks)

        def remote(self, tasks):
            return object()

        def take(self):
            if self.host is None:
                self.awaited, self.host = None, Host("cpu", "", 1, self.machine, 1)
            return ()

    monkeypatch.setattr(runner, "WorkerHandle", Silent)
    monkeypatch.setattr(runner.ray, "kill", lambda _: None)
    monkeypatch.setattr(runner.ray, "wait", lambda each, **_: (each, clock.sleep(0.5) or []))
    made = RayRunner(RunnerOptions(device="cpu", stall=10.0))
    made._alive = lambda: [Machine("a", 1)]
    made.devices = Devices("cpu", 1, 1)
    tasks, watched = [SimpleNamespace(run_id="run", attempt=1)], []
    source = SimpleNamespace(
        next_tasks=lambda _: (tasks.pop(),) if tasks else (),
        is_withdrawn=lambda _: False,
        is_over=lambda: False,
    )
    for events in made.run(source):
        if events:
            break
        watched.append(made._workers[0].seconds_without_progress)
        clock.sleep(100.0)
    assert [type(event) for event in events] == [Lost]
    assert max(watched) == pytest.approx(10.0, abs=1.0)
    assert sorted(watched) == watched


def test_a_gpu_that_torch_does_not_see_is_refused_where_no_cpu_may_stand_in(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    given = SimpleNamespace(get_accelerator_ids=lambda: {"GPU": ["3"]})
    monkeypatch.setattr(ray, "get_runtime_context", lambda: given)
    with pytest.raises(ClusterError, match="GPU 3") as caught:
        actor.Worker("cuda", 1).describe_host(allow_cpu=False)
    assert "--device cpu" in caught.value.hint
    assert actor.Worker("cuda", 1).describe_host(allow_cpu=True).device == "cpu"


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_workers_that_may_never_rest_are_refused(seconds):
    with pytest.raises(SettingsError, match=r"stall is .* must be above 0"):
        RayRunner(RunnerOptions(stall=seconds))
