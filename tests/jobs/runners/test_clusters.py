"""Joining clusters: which are refused and why, and a head that is lost."""

from __future__ import annotations

import os
import platform
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import ray
from ray._private import services

from jobs.operations.doctor import CHECKS, checkup
from jobs.runners.ray import cluster
from jobs.runners.ray.cluster import CONNECT_SECONDS, connected, exposed_token, token_source
from jobs.runners.ray.private import ANSWER_SECONDS, Head, Silent
from jobs.runners.ray.runner import HEAD_SECONDS, MACHINES_SECONDS
from survey import ClusterError, SettingsError
from tests.jobs.runners.ray_heads import TOKEN, free_port, head
from tests.style.repository import ROOT
from tests.waiting import PATIENCE_SECONDS

#: Joins a cluster and prints what there is on it.
JOIN = """
import sys
from jobs.runners.ray.cluster import connected
import ray
with connected(sys.argv[1], insecure="--insecure" in sys.argv) as head:
    print(ray.get(ray.remote(lambda: 6 * 7).remote()), [m.cores for m in head.machines()])
"""

#: Runs a runner whose worker never ends its task; prints a line once the worker is there.
WAITING = """
import sys, time
from types import SimpleNamespace
import jobs.runners.ray.runner
from jobs.runners.options import RunnerOptions
from jobs.runners.ray.runner import RayRunner
from jobs.runners.task import Task
from survey import ClusterError

# Not as long as a scan waits: how long that may be is asserted below.
jobs.runners.ray.runner.HEAD_SECONDS = 6.0

class Source:
    tasks = [Task(SimpleNamespace(run_id="run"), 1)]

    def next_tasks(self, host):
        print("ready", flush=True)
        return (self.tasks.pop(),) if self.tasks else ()

    def is_withdrawn(self, run_id):
        return False

    def is_over(self):
        return False

def endless(task, device, threads, heartbeat):
    while True:
        time.sleep(0.1)
        heartbeat.beat()
    yield

try:
    with RayRunner(RunnerOptions(device="cpu", address=sys.argv[1]), endless) as runner:
        for events in runner.run(Source()):
            pass
except ClusterError as error:
    print(error.message, flush=True)
    sys.exit(error.exit_code)
"""


@pytest.fixture(scope="module")
def open_head():
    with head() as started:
        yield started


@pytest.fixture(scope="module")
def closed_head():
    with head(TOKEN) as started:
        yield started


def outer() -> str:
    """Return this machine's address on its network."""
    address = services.get_node_ip_address()
    if address.startswith("127."):
        pytest.skip("this machine has no address beyond loopback")
    return address


def join(port, *arguments, host="127.0.0.1", **environment):
    """Join a cluster in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", JOIN, f"{host}:{port}", *arguments],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_a_termination_while_ray_starts_is_what_it_is_elsewhere(monkeypatch):
    """And not the exit of Ray's own handler, of which a scan would not take note."""

    def init(**_options):
        signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(number))
        signal.raise_signal(signal.SIGTERM)

    def ended(_number, _frame):
        raise KeyboardInterrupt

    monkeypatch.setattr(ray, "init", init)
    before = signal.signal(signal.SIGTERM, ended)
    try:
        with pytest.raises(KeyboardInterrupt):
            cluster._init({})
        assert signal.getsignal(signal.SIGTERM) is ended
    finally:
        signal.signal(signal.SIGTERM, before)


def refused(address, **how):
    """Try to join a cluster that is not to be joined."""
    with connected(address, **how):
        pytest.fail("it was joined")


@pytest.mark.ray
def test_an_open_cluster_beyond_loopback_is_refused(open_head):
    with pytest.raises(ClusterError) as caught:
        refused(f"{outer()}:{open_head.port}")
    assert "--insecure" in caught.value.hint
    assert not ray.is_initialized()


@pytest.mark.ray
@pytest.mark.parametrize("how", ["loopback", "insecure"])
def test_an_open_cluster_is_joined_on_loopback_or_as_insecure(open_head, how):
    there = ("127.0.0.1", ()) if how == "loopback" else (outer(), ("--insecure",))
    ended = join(open_head.port, *there[1], host=there[0])
    assert ended.stdout.startswith("42 [1]"), ended.stderr


@pytest.mark.ray
def test_a_cluster_with_a_token_lets_in_who_has_it(closed_head):
    # The mode is not set: that the cluster asks for a token is found out.
    ended = join(closed_head.port, host=outer(), RAY_AUTH_TOKEN=TOKEN)
    assert ended.stdout.startswith("42 [1]"), ended.stderr
    assert TOKEN not in ended.stdout + ended.stderr


@pytest.mark.ray
def test_a_missing_or_wrong_token_is_refused_and_never_shown(closed_head, tokenless, monkeypatch):
    address = f"127.0.0.1:{closed_head.port}"
    with pytest.raises(ClusterError) as caught:
        refused(address, insecure=True)
    assert "RAY_AUTH_TOKEN" in caught.value.hint
    wrong = "f" * 64
    monkeypatch.setenv("RAY_AUTH_TOKEN", wrong)
    with pytest.raises(ClusterError, match="from RAY_AUTH_TOKEN") as caught:
        refused(address)
    assert wrong not in f"{caught.value.message} {caught.value.hint} {caught.value.__cause__}"


@pytest.mark.ray
def test_a_cluster_of_other_versions_is_refused_with_both(open_head, monkeypatch):
    here = Head(f"127.0.0.1:{open_head.port}").versions()
    assert here == {"ray_version": ray.__version__, "python_version": platform.python_version()}
    monkeypatch.setattr(Head, "versions", lambda self: {**here, "ray_version": "2.9.0"})
    with pytest.raises(ClusterError, match=r"2\.9\.0") as caught:
        refused(f"127.0.0.1:{open_head.port}")
    assert ray.__version__ in caught.value.message
    assert not ray.is_initialized()


@pytest.mark.parametrize(
    "address", ["ray://127.0.0.1:10001", "http://127.0.0.1:8265", "somewhere", "host:x", "host:0"]
)
def test_what_is_no_address_is_refused(address):
    with pytest.raises(SettingsError, match=re.escape(address)):
        refused(address)


def test_auto_takes_the_address_of_the_environment(monkeypatch):
    monkeypatch.setenv("RAY_ADDRESS", "ray://127.0.0.1:10001")
    with pytest.raises(SettingsError, match="ray://127"):
        refused("auto")


@pytest.mark.quick
def test_a_local_ray_that_does_not_come_up_is_a_clear_error(monkeypatch):
    # Ray raises no class of its own where a machine is too busy to start its processes in time.
    def late(**_):
        raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", late)
    with pytest.raises(ClusterError, match="timed out during startup") as caught:
        refused(None)
    assert "--runner local" in caught.value.hint


def test_an_address_where_nobody_listens_is_refused_at_once():
    began = time.monotonic()
    with pytest.raises(ClusterError) as caught:
        refused(f"127.0.0.1:{free_port()}")
    assert "--address" in caught.value.hint
    assert time.monotonic() - began < CONNECT_SECONDS


def test_something_else_that_listens_is_no_head():
    def hang_up(server):
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            connection.sendall(b"HTTP/1.0 400 Bad Request\r\n\r\n")
            connection.close()

    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(hang_up, server)
        with pytest.raises(ClusterError) as caught:
            refused(f"127.0.0.1:{server.getsockname()[1]}")
        assert "6379" in caught.value.hint
        server.shutdown(socket.SHUT_RDWR)


def test_the_source_of_a_token_is_named_and_never_the_token(tokenless, monkeypatch, tmp_path):
    assert token_source() is None
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray" / "auth_token").write_text(TOKEN)
    assert token_source() == "~/.ray/auth_token"
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(ClusterError, match="RAY_AUTH_TOKEN_PATH"):
        token_source()
    (tmp_path / "none").write_text(TOKEN)
    assert token_source() == "RAY_AUTH_TOKEN_PATH"
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    assert token_source() == "RAY_AUTH_TOKEN"
    assert TOKEN not in repr(Head("127.0.0.1:1", (("authorization", TOKEN),)))


@pytest.mark.slow(seconds=60)
@pytest.mark.long
@pytest.mark.ray
def test_a_lost_head_ends_the_scan_with_an_error_and_not_with_the_process():
    with head(TOKEN) as started:
        scan = subprocess.Popen(
            [sys.executable, "-c", WAITING, f"127.0.0.1:{started.port}"],
            cwd=ROOT,
            env=os.environ | {"RAY_AUTH_TOKEN": TOKEN},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            assert scan.stdout.readline() == "ready\n", scan.communicate()[1]
            os.kill(started.gcs_pid(), signal.SIGKILL)
            printed, _ = scan.communicate(timeout=PATIENCE_SECONDS)
        finally:
            scan.kill()
            scan.communicate()
    assert "head of the Ray cluster" in printed
    assert scan.returncode == 3
    # After a minute without an answer Ray would have ended the process.
    assert HEAD_SECONDS + MACHINES_SECONDS + 2 * ANSWER_SECONDS < 60


def test_a_head_that_is_not_there_is_silent():
    with pytest.raises(Silent):
        Head(f"127.0.0.1:{free_port()}").machines()


def test_the_checkup_names_the_source_of_the_token(tokenless, monkeypatch, tmp_path):
    monkeypatch.setattr("jobs.operations.doctor.CHECKS", {"token": CHECKS["token"]})
    (none,) = checkup(tmp_path)
    assert (none.state, "RAY_AUTH_TOKEN" in none.detail) == ("ok", False)
    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    (with_token,) = checkup(tmp_path)
    assert with_token.detail.endswith("RAY_AUTH_TOKEN")
    assert TOKEN not in str(with_token)


@pytest.mark.parametrize("name", ["home/.ray/auth_token", "elsewhere"])
def test_a_token_file_that_others_can_read_is_shown(name, tokenless, monkeypatch, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(TOKEN)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    if name == "elsewhere":
        monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(path))
    path.chmod(0o644)
    assert exposed_token() == path
    path.chmod(0o600)
    assert exposed_token() is None
