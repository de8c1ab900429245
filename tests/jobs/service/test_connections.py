"""Connections: idle ones end, many may wait, and a lack of files is logged now and then."""

from __future__ import annotations

import asyncio
import errno
import json
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from typing import Annotated

import pytest
from fastapi import Body, Depends, FastAPI, Request, Response
from fastapi.responses import StreamingResponse

from catalog.home import Home
from jobs.service import server as module
from jobs.service.application import make_application
from jobs.service.server import _Server
from jobs.service.settings import ServiceSettings
from tests.style.repository import ROOT
from tests.waiting import PATIENCE_SECONDS, until

ASKED = b"GET /slow HTTP/1.1\r\nHost: a\r\n\r\n"


@contextmanager
def serving(app: FastAPI, listener: socket.socket) -> Iterator[tuple[str, int]]:
    """Serve an application in a thread; give its address."""
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    server = _Server(app, 0)
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        until(lambda: server.started)
        yield listener.getsockname()
    finally:
        server.should_exit = True
        thread.join()


def read_to_end(connection: socket.socket) -> bytes:
    connection.settimeout(PATIENCE_SECONDS)
    return b"".join(iter(lambda: connection.recv(4096), b""))


@pytest.mark.parametrize("sent", [b"", ASKED[:-2]])
def test_a_connection_without_a_whole_head_is_closed(
    monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.1)
    app, closed, entered = FastAPI(), threading.Event(), threading.Event()

    @app.get("/slow")
    def slow() -> str:
        entered.set()
        closed.wait(PATIENCE_SECONDS)
        return "slow"

    with serving(app, socket.socket()) as address, socket.create_connection(address) as asks:
        asks.sendall(ASKED.replace(b"Host", b"Connection: close\r\nHost"))
        entered.wait(PATIENCE_SECONDS)
        # It comes later than the request that waits, and is over before that.
        with socket.create_connection(address) as idle:
            idle.sendall(sent)
            assert read_to_end(idle) == b""
        closed.set()
        assert read_to_end(asks).endswith(b'"slow"')


REFUSED = b"POST /none HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n" + b"a" * 10


def test_behind_the_rest_of_a_body_that_was_refused_comes_another_request() -> None:
    with serving(FastAPI(), socket.socket()) as address, socket.create_connection(address) as sends:
        sends.settimeout(PATIENCE_SECONDS)
        sends.sendall(REFUSED)
        assert sends.recv(4096).startswith(b"HTTP/1.1 404")
        sends.sendall(b"a" * 5)
        sends.sendall(b"a" * 5 + ASKED.replace(b"Host", b"Connection: close\r\nHost"))
        assert b"HTTP/1.1 404" in read_to_end(sends)


def test_the_rest_of_a_body_that_was_refused_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEAD_SECONDS", 0.1)
    with serving(FastAPI(), socket.socket()) as address, socket.create_connection(address) as sends:
        sends.settimeout(PATIENCE_SECONDS)
        sends.sendall(REFUSED)
        assert sends.recv(4096).startswith(b"HTTP/1.1 404")
        # A byte ends the server's own limit.
        sends.sendall(b"a")
        assert b"HTTP" not in read_to_end(sends)


def test_a_body_that_is_waited_for_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BODY_SECONDS", 1.0)
    app, closed = FastAPI(), threading.Event()

    @app.post("/whole")
    async def whole(request: Request) -> int:
        return len(await request.body())

    @app.post("/slow")
    def slow(_: Annotated[str, Body()]) -> str:
        closed.wait(PATIENCE_SECONDS)
        return "slow"

    with serving(app, socket.socket()) as address, socket.create_connection(address) as asks:
        # One that has come has no limit.
        head = b"Connection: close\r\nContent-Type: application/json\r\nHost"
        asks.sendall(REFUSED[:-10].replace(b"none", b"slow").replace(b"Host", head))
        asks.sendall(b'"%s"' % (b"a" * 18))
        with socket.create_connection(address) as sends:
            sends.sendall(REFUSED.replace(b"none", b"whole"))
            assert read_to_end(sends) == b""
        closed.set()
        assert read_to_end(asks).endswith(b'"slow"')


@pytest.mark.parametrize(
    "body", [b"Content-Length: 20\r\n\r\nabc", b"Transfer-Encoding: chunked\r\n\r\n5\r\nab"]
)
def test_a_body_has_a_limit_that_came_with_the_request_before(
    monkeypatch: pytest.MonkeyPatch, body: bytes
) -> None:
    monkeypatch.setattr(module, "BODY_SECONDS", 0.1)
    app = FastAPI()

    @app.post("/whole")
    async def whole(request: Request) -> int:
        return len(await request.body())

    with serving(app, socket.socket()) as address, socket.create_connection(address) as sends:
        sends.settimeout(PATIENCE_SECONDS)
        sends.sendall(ASKED + b"POST /whole HTTP/1.1\r\nHost: a\r\n" + body)
        assert read_to_end(sends).count(b"HTTP/1.1") == 1


def test_a_whole_body_is_not_cut_off_while_it_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BODY_SECONDS", 0.5)
    app = FastAPI()

    @app.post("/late")
    async def late(request: Request) -> int:
        # What has come waits meanwhile, and the rest with the client.
        await asyncio.sleep(1.2)
        return len(await request.body())

    head = b"POST /late HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 3000000\r\n\r\n"
    with serving(app, socket.socket()) as address, socket.create_connection(address) as sends:
        sends.settimeout(PATIENCE_SECONDS)
        sends.sendall(head + b"a" * 3_000_000)
        assert read_to_end(sends).endswith(b"3000000")


ANSWER = b"a" * 32_000_000

FETCH = b"GET /large HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"


def test_an_answer_that_its_client_does_not_take_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TAKEN_SECONDS", 0.2)
    app, left = FastAPI(), threading.Event()

    async def room() -> AsyncIterator[None]:
        yield
        left.set()

    @app.get("/large", dependencies=[Depends(room)])
    def large(pieces: int) -> Response:
        size = len(ANSWER) // pieces
        return StreamingResponse(ANSWER[:size] for _ in range(pieces))

    for pieces in (b"1", b"200"):
        left.clear()
        with serving(app, socket.socket()) as address, socket.create_connection(address) as takes:
            takes.sendall(FETCH.replace(b"large", b"large?pieces=" + pieces))
            assert left.wait(PATIENCE_SECONDS)
            assert len(read_to_end(takes)) < len(ANSWER)


def test_an_answer_that_its_client_takes_slowly_comes_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "TAKEN_SECONDS", 1.0)
    app = FastAPI()

    @app.get("/large")
    def large() -> Response:
        return Response(ANSWER)

    with serving(app, socket.socket()) as address, socket.create_connection(address) as takes:
        takes.settimeout(PATIENCE_SECONDS)
        takes.sendall(FETCH)
        came, began = 0, time.monotonic()
        # Ten times as fast as it has to be, which is less than what the system asks for at once.
        while time.monotonic() - began < 3 * module.TAKEN_SECONDS:
            came += len(takes.recv(module.TAKEN_BYTES // 2))
            time.sleep(0.05)
        assert came + len(read_to_end(takes)) > len(ANSWER)


def test_the_last_of_an_answer_has_a_limit_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "TAKEN_SECONDS", 0.2)
    app, listener = FastAPI(), socket.socket()
    # Else the system takes more the second time.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 16)

    @app.get("/large")
    def large(size: int) -> Response:
        return Response(ANSWER[:size])

    with serving(app, listener) as address:

        def left_alone(size: int) -> int:
            with socket.socket() as takes:
                takes.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
                takes.connect(address)
                takes.sendall(FETCH.replace(b"large", b"large?size=%d" % size))
                time.sleep(5 * module.TAKEN_SECONDS)
                return len(read_to_end(takes))

        of_the_system = left_alone(len(ANSWER))
        assert of_the_system < len(ANSWER)
        for more in (1_000, 5_000, 10_000):
            assert left_alone(of_the_system + more) < of_the_system + more


def test_the_room_of_a_result_that_is_not_taken_is_free_again(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "TAKEN_SECONDS", 0.2)
    app, sql = make_application(ServiceSettings(home)), "SELECT repeat('x', 1000) FROM range(30000)"
    body = json.dumps({"sql": sql}).encode()
    head = b"POST /api/v1/sql.csv HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with serving(app, socket.socket()) as address, socket.create_connection(address) as takes:
        takes.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        for present in (1, 0):
            until(lambda present=present: app.state.queries._present == present)
        assert read_to_end(takes).startswith(b"HTTP/1.1 200")


def test_clients_wait_while_the_service_is_busy() -> None:
    app, clients = FastAPI(), threading.Event()

    @app.get("/slow")
    async def slow() -> None:
        entered.set()
        clients.wait(PATIENCE_SECONDS)

    entered = threading.Event()
    with serving(app, socket.socket()) as address, ExitStack() as stack:
        stack.callback(clients.set)
        asks = stack.enter_context(socket.create_connection(address))
        asks.sendall(ASKED)
        entered.wait(PATIENCE_SECONDS)
        for _ in range(200):
            stack.enter_context(socket.create_connection(address, timeout=20))


class _WithoutFiles(socket.socket):
    def accept(self) -> tuple[socket.socket, object]:
        raise OSError(errno.EMFILE, "Too many open files")


def test_without_files_each_try_to_accept_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    def tries() -> int:
        return sum(record.name == "asyncio" for record in caplog.records)

    with serving(FastAPI(), _WithoutFiles()) as address, socket.create_connection(address):
        until(tries)
    # One a second; a thousand at once before.
    assert tries() < 20


def test_the_service_opens_as_many_files_as_the_system_allows() -> None:
    code = "import resource as r; from jobs.service.server import _allow_most_files as a;"
    code += "print(*r.getrlimit(r.RLIMIT_NOFILE)); a(); print(*r.getrlimit(r.RLIMIT_NOFILE))"
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    shell = ["sh", "-c", 'ulimit -S -n 100 && exec "$0" -c "$1"', sys.executable, code]
    printed = subprocess.run(shell, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert printed.splitlines() == [f"100 {most}", f"{most} {most}"]


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGTERM])
def test_a_signal_stops_the_server_and_then_comes_again(number: signal.Signals) -> None:
    app, came = FastAPI(), list[int]()
    # These tests may run under nohup.
    hangup = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    before = signal.signal(number, lambda number, _: came.append(number))
    server = _Server(app, 0)
    try:
        with server.capture_signals():
            signal.raise_signal(number)
            assert (server.should_exit, app.state.stopping, came) == (True, True, [])
        assert came == [number]
        signal.signal(number, signal.SIG_IGN)
        with _Server(app, 0).capture_signals():
            ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
            assert ignored == (number == signal.SIGHUP)
    finally:
        signal.signal(number, before)
        signal.signal(signal.SIGHUP, hangup)
