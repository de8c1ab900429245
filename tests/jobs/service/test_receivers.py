"""Webhooks and commands: signatures, retries with one id, bounded time, nothing secret in a log."""

from __future__ import annotations

import base64
import hashlib
import hmac
import http.server
import json
import socket
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from catalog.home import Home
from catalog.registry.registry import Registry
from catalog.registry.rows import EventEntry, EventKind
from jobs.cli.service.serve import NoticeOptions
from jobs.service import deliveries, receivers
from jobs.service.deliveries import delivering
from jobs.service.receivers import DriftCommand, NotAccepted, Webhook, parsed_secret, signature
from survey.errors import SettingsError
from tests.catalog.homes import new_home
from tests.waiting import PATIENCE_SECONDS, until

SECRET = b"sixteen bytes or more"

NOW, HOUR = datetime(2026, 11, 2, 8, 30, tzinfo=UTC), timedelta(hours=1)


class Hook(http.server.BaseHTTPRequestHandler):
    """Answers with the next of the statuses, the last for ever, and keeps what it got."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server = self.server
        server.got.append((dict(self.headers), body))  # type: ignore[attr-defined]
        statuses = server.statuses  # type: ignore[attr-defined]
        self.send_response(statuses.pop(0) if len(statuses) > 1 else statuses[0])
        self.send_header("Location", self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@contextmanager
def answering(*statuses: int) -> Iterator[tuple[str, list]]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Hook)
    server.statuses, server.got = list(statuses), []  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/a?key=hidden", server.got  # type: ignore[attr-defined]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return new_home(tmp_path / "home")


def happened(home: Home, number: int, kind: EventKind = "finished") -> None:
    with Registry(home) as registry:
        registry.events.record(EventEntry(kind, f"run {number}", "done", {"n": number}, NOW))


@pytest.fixture(autouse=True)
def hurried(monkeypatch):
    monkeypatch.setattr(deliveries, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(deliveries, "LONGEST_SECONDS", 0.05)


def test_an_event_is_sent_until_it_is_accepted_with_one_id_and_signed(home, caplog):
    with answering(500, 302, 204) as (url, got):
        hook = Webhook(url, SECRET)
        with Registry(home) as registry, delivering(registry.events, [hook]):
            happened(home, 1)
            happened(home, 1)
            until(lambda: len(got) == 3)
        with Registry(home) as registry, delivering(registry.events, [hook]):
            happened(home, 2)
            until(lambda: len(got) == 4)
    ids = [headers["webhook-id"] for headers, _ in got]
    assert len(set(ids[:3])) == 1
    assert ids[3] not in ids[:3]
    for headers, body in got:
        content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        digest = hmac.new(SECRET, content, hashlib.sha256).digest()
        assert headers["webhook-signature"] == f"v1,{base64.b64encode(digest).decode()}"
        assert json.loads(body)["id"] == headers["webhook-id"]
    assert got[0][1] == got[2][1]
    assert "127.0.0.1" in caplog.text
    assert "hidden" not in caplog.text
    assert "sixteen" not in caplog.text + repr(hook)


def test_a_user_of_an_address_is_sent_as_basic_authorization(home, caplog):
    with answering(500, 204) as (url, got):
        for number, place in enumerate((url, url.replace("://", "://me:a%20b@"))):
            with Registry(home) as registry, delivering(registry.events, [Webhook(place, SECRET)]):
                happened(home, number)
                until(lambda least=number: len(got) == 2 + least)
    sent = [headers.get("Authorization") for headers, _ in got]
    assert sent == [None, None, f"Basic {base64.b64encode(b'me:a b').decode()}"]
    assert "a%20b" not in caplog.text


def test_an_address_that_is_named_twice_hears_once(tmp_path: Path):
    (tmp_path / "secret").write_text("whsec_" + base64.b64encode(bytes(32)).decode())
    named = ["http://x/a", "http://x/b", "http://x/a"]
    options = NoticeOptions(webhook=named, webhook_secret=tmp_path / "secret")
    assert len({receiver.key for receiver in options.receivers()}) == 2 == len(options.receivers())


def test_the_signature_is_that_of_the_standard():
    # The example of the specification of Standard Webhooks.
    secret = parsed_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    got = signature(secret, "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", b'{"test": 2432232314}')
    assert got == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_receiver_gets_what_happens_after_it_was_first_named_also_while_it_was_gone(home):
    happened(home, 1)
    with answering(200) as (url, got):
        hook = Webhook(url, SECRET)
        with Registry(home) as registry, delivering(registry.events, [hook]):
            pass
        happened(home, 2)
        with Registry(home) as registry, delivering(registry.events, [hook]):
            until(lambda: got)
        with Registry(home) as registry:
            assert registry.events.due(hook.key, hook.kinds, NOW + timedelta(days=9999), HOUR) == []
    assert [json.loads(body)["data"]["n"] for _, body in got] == [2]


def test_a_server_that_trickles_takes_no_longer_than_allowed(home, monkeypatch):
    monkeypatch.setattr(receivers, "WEBHOOK_SECONDS", 0.5)
    happened(home, 1)
    with Registry(home) as registry:
        (event,) = registry.events.latest(1)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def trickle() -> None:
            connection, _ = listener.accept()
            with connection:
                try:
                    while True:
                        connection.sendall(b"H")
                        time.sleep(0.05)
                except OSError:
                    return

        thread = threading.Thread(target=trickle)
        thread.start()
        began = time.monotonic()
        with pytest.raises(NotAccepted):
            Webhook(f"http://127.0.0.1:{listener.getsockname()[1]}/", SECRET).send(event)
        assert time.monotonic() - began < PATIENCE_SECONDS / 2
        thread.join()


def test_a_command_gets_drift_alone_and_no_shell_reads_it(home, tmp_path):
    written = tmp_path / "got"
    code = "import sys; open(sys.argv[1], 'w').write(sys.stdin.read()); print(sys.argv[2])"
    command = DriftCommand.of(f'{sys.executable} -c "{code}" {written} "$(id)"')
    with Registry(home) as registry, delivering(registry.events, [command]):
        happened(home, 1)
        happened(home, 2, "drift")
        until(lambda: written.exists() and written.read_text())
    assert json.loads(written.read_text())["type"] == "drift"
    assert command.arguments[-1] == "$(id)"


def test_a_command_that_fails_or_hangs_is_tried_again(home, monkeypatch):
    monkeypatch.setattr(receivers, "COMMAND_SECONDS", 0.5)
    happened(home, 1, "drift")
    with Registry(home) as registry:
        (event,) = registry.events.latest(1)
    for written in ("false", "sleep 60"):
        with pytest.raises(NotAccepted):
            DriftCommand.of(written).send(event)


def test_a_host_that_cannot_be_encoded_is_a_try_that_failed(home, monkeypatch):
    def refuse(_: object) -> None:
        raise UnicodeError("label empty or too long")

    monkeypatch.setattr("http.client.HTTPConnection.connect", refuse)
    happened(home, 1)
    with Registry(home) as registry:
        (event,) = registry.events.latest(1)
    with pytest.raises(NotAccepted, match="UnicodeError"):
        Webhook("http://x/", SECRET).send(event)


@pytest.mark.parametrize(
    "refused",
    [
        lambda: Webhook("ftp://x/y", SECRET),
        lambda: Webhook("http://", SECRET),
        lambda: Webhook("http://x:99999/", SECRET),
        lambda: Webhook("http://x/a b", SECRET),
        lambda: Webhook("http://a..b/", SECRET),
        lambda: Webhook(f"http://{'a' * 64}.org/", SECRET),
        lambda: Webhook("http://x/a\r\nHost: y", SECRET),
        lambda: parsed_secret("short"),
        lambda: parsed_secret("whsec_*"),
        lambda: DriftCommand.of("'"),
        lambda: DriftCommand.of(""),
        lambda: DriftCommand.of("no-such-program-here --x"),
    ],
)
def test_what_cannot_be_used_is_refused(refused):
    with pytest.raises(SettingsError):
        refused()
