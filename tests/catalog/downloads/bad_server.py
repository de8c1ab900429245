"""A web server on this machine that serves files as badly as a test asks."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.waiting import PATIENCE_SECONDS

#: What a server does instead of an answer as it should be: gets the handler and what it serves.
Fault = Callable[["Handler", "Served"], None]


@dataclass
class Served:
    """A file as the server offers it."""

    body: bytes
    etag: str | None = '"first"'
    headers: dict[str, str] = field(default_factory=dict)
    #: Whether it answers to Range.
    ranges: bool = True
    #: Whether it looks at If-Range.
    conditions: bool = True
    #: Whether it says its length.
    length: bool = True
    #: What happens to the next requests, one each; then it answers as it should.
    faults: list[Fault] = field(default_factory=list)
    #: What happens to every request instead.
    always: Fault | None = None


class Web:
    """The server, what it serves, and what it was asked."""

    def __init__(self, port_owner: ThreadingHTTPServer) -> None:
        self._server = port_owner
        self.files: dict[str, Served] = {}
        #: Path and headers of every request, in order.
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.lock = threading.Lock()

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}{path}"

    def serve(self, path: str, body: bytes, **how: object) -> Served:
        self.files[path] = Served(body, **how)  # type: ignore[arg-type]
        return self.files[path]

    def ranges(self, path: str) -> list[str | None]:
        """Return the Range of every request for a file; None where all of it was asked for."""
        return [headers.get("Range") for asked, headers in self.requests if asked == path]


class Handler(BaseHTTPRequestHandler):
    web: Web

    def do_GET(self) -> None:
        path = self.path.partition("?")[0]
        with self.web.lock:
            self.web.requests.append((path, dict(self.headers)))
            served = self.web.files.get(path)
            fault = None
            if served is not None:
                fault = served.faults.pop(0) if served.faults else served.always
        if served is None:
            self.send_error(404)
        elif fault is not None:
            fault(self, served)
        else:
            self.send_content(served)

    def send_content(self, served: Served, at_most: int | None = None) -> None:
        start = self.start_of(served)
        self.send_head(served, start)
        self.wfile.write(served.body[start:][:at_most])
        self.wfile.flush()

    def start_of(self, served: Served) -> int:
        asked, condition = self.headers.get("Range"), self.headers.get("If-Range")
        same = condition in {served.etag, served.headers.get("Last-Modified")}
        if asked is None or not served.ranges or (served.conditions and not same):
            return 0
        return int(asked.removeprefix("bytes=").removesuffix("-"))

    def send_head(self, served: Served, start: int) -> None:
        size = len(served.body)
        self.send_response(206 if start else 200)
        if start:
            self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
        if served.length:
            self.send_header("Content-Length", str(size - start))
        if served.etag is not None:
            self.send_header("ETag", served.etag)
        for name, value in served.headers.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def resets_after(count: int) -> Fault:
    """Send some bytes, then break the connection hard."""

    def fault(handler: Handler, served: Served) -> None:
        handler.send_content(served, at_most=count)
        lingers = struct.pack("ii", 1, 0)
        handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingers)
        handler.connection.close()

    return fault


def ends_after(count: int) -> Fault:
    """Send some bytes of a longer content, then end as if all were well."""
    return lambda handler, served: handler.send_content(served, at_most=count)


def waits_after(count: int, event: threading.Event) -> Fault:
    """Send some bytes, then none until an event."""

    def fault(handler: Handler, served: Served) -> None:
        handler.send_content(served, at_most=count)
        event.wait(PATIENCE_SECONDS)

    return fault


def chunked_until(count: int) -> Fault:
    """Send in chunks, without a length, and break off before the chunk that ends it."""

    def fault(handler: Handler, served: Served) -> None:
        handler.protocol_version = "HTTP/1.1"
        handler.close_connection = True
        handler.send_response(200)
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        handler.wfile.write(b"%x\r\n%b\r\n" % (count, served.body[:count]))

    return fault


def mistakes_the_range() -> Fault:
    """Send the end of the content from another place than was asked for, and say so."""

    def fault(handler: Handler, served: Served) -> None:
        handler.send_head(served, handler.start_of(served) + 5)
        handler.wfile.write(served.body[handler.start_of(served) + 5 :])

    return fault


def goes_on_and_on(sent: list[int]) -> Fault:
    """Send more and more, up to 128 MiB, and note how much was taken."""

    def fault(handler: Handler, served: Served) -> None:
        handler.send_head(served, 0)
        sent.extend(handler.wfile.write(bytes(2**20)) for _ in range(128))

    return fault


def trickles(pieces: int, event: threading.Event, seconds: float) -> Fault:
    """Send everything, but with a pause before each piece."""

    def fault(handler: Handler, served: Served) -> None:
        start = handler.start_of(served)
        handler.send_head(served, start)
        step = -(-len(served.body) // pieces)
        for place in range(start, len(served.body), step):
            event.wait(seconds)
            handler.wfile.write(served.body[place : place + step])
            handler.wfile.flush()

    return fault


def answers(status: int, body: bytes = b"", **headers: str) -> Fault:
    """Answer with a status of one's own; underscores in names of headers stand for dashes."""

    def fault(handler: Handler, _: Served) -> None:
        handler.send_response(status)
        for name, value in {"Content_Length": str(len(body)), **headers}.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(body)

    return fault


def sends(content: bytes, sent: list[int] | None = None) -> Fault:
    """Send bytes as they are, instead of any answer; then up to 128 MiB, where they are counted."""

    def fault(handler: Handler, _: Served) -> None:
        handler.close_connection = True
        handler.wfile.write(content)
        if sent is not None:
            sent.extend(handler.wfile.write(bytes(2**20)) for _ in range(128))

    return fault


def drips_after(content: bytes) -> Fault:
    """Send bytes as they are, instead of any answer; then one byte at a time, for ten minutes."""

    def fault(handler: Handler, _: Served) -> None:
        handler.close_connection = True
        handler.wfile.write(content)
        for _number in range(30_000):
            handler.wfile.write(b"x")
            time.sleep(0.02)

    return fault


def leads_to(url: str, **headers: str) -> Fault:
    """Answer with a redirect."""
    return answers(302, Location=url, **headers)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        # A client that goes away, or a connection that was broken on purpose.
        pass


@contextlib.contextmanager
def serving() -> Iterator[Web]:
    """Serve on a port of this machine for a while."""
    with _Server(("127.0.0.1", 0), Handler, bind_and_activate=True) as server:
        web = Web(server)
        server.RequestHandlerClass = type("Bound", (Handler,), {"web": web})
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield web
        finally:
            server.shutdown()
            thread.join()
