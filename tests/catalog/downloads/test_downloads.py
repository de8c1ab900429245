"""Files from elsewhere: whole, checked and fetched once, from servers that misbehave."""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections import namedtuple
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from huggingface_hub import constants

from catalog.downloads import FileStore, pace, transfer
from catalog.downloads import store as store_module
from catalog.downloads.receipts import content_of, write_note
from catalog.downloads.responses import is_page
from catalog.downloads.urls import browser_address, direct_address, public_address
from catalog.models.base import RemoteFile
from jobs.planning.prefetch import fetch
from survey.errors import DownloadError, UnreachableError
from tests.catalog.downloads.bad_server import (
    Fault,
    Web,
    answers,
    chunked_until,
    drips_after,
    ends_after,
    goes_on_and_on,
    leads_to,
    mistakes_the_range,
    resets_after,
    sends,
    serving,
    trickles,
    waits_after,
)
from tests.waiting import PATIENCE_SECONDS, children_of, until

BODY = random.Random(0).randbytes(300_000)
SHA256 = hashlib.sha256(BODY).hexdigest()
MD5 = hashlib.md5(BODY).hexdigest()
#: Where connections break: a whole number of what is read at a time.
CUT = 12 * 2**14
OTHER = random.Random(1).randbytes(300_000)
OTHER_SHA256 = hashlib.sha256(OTHER).hexdigest()

#: An address that is no web address: a file of this machine.
LOCAL = "file:" + "//" + "/etc/hostname"

Usage = namedtuple("Usage", "total used free")


@pytest.fixture(autouse=True)
def _roomy_and_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep the machine's proxy, login, disk and caches out of the tests, and wait shortly."""
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch"))
    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hub"))
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, 10**12))
    monkeypatch.setattr(transfer, "FIRST_WAIT_SECONDS", 0.001)
    monkeypatch.setattr(transfer, "LONGEST_WAIT_SECONDS", 2.0)
    monkeypatch.setattr(transfer, "STALL_SECONDS", 0.4)


@pytest.fixture
def web() -> Iterator[Web]:
    with serving() as running:
        yield running


@pytest.fixture
def store(tmp_path: Path) -> FileStore:
    return a_store(tmp_path)


def a_store(tmp_path: Path, offline: bool = False) -> FileStore:
    return FileStore(tmp_path / "files", offline=offline)


def remote(url: str, **known: object) -> RemoteFile:
    return RemoteFile(url=url, name="weights.pth", **known)  # type: ignore[arg-type]


def kept_files(store: FileStore, *folders: str) -> list[Path]:
    return [p for folder in folders for p in (store.root / folder).rglob("*") if p.is_file()]


def refused(action: Callable[[], object]) -> DownloadError:
    with pytest.raises(DownloadError) as caught:
        action()
    return caught.value


# What is kept, and where.


def test_a_file_lies_under_its_content_and_is_fetched_once(web: Web, store: FileStore) -> None:
    web.serve("/weights.pth", BODY)
    file = remote(web.url("/weights.pth"))
    assert store.find(file) is None
    assert not store.root.exists()
    seen: list[tuple[int, int | None]] = []
    path = store.get(file, lambda done, total: seen.append((done, total)))
    assert path == store.root / "sha256" / SHA256[:2] / SHA256
    assert path.read_bytes() == BODY
    assert seen[-1] == (len(BODY), len(BODY))
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert store.get(file) == store.find(file) == path
    assert len(web.requests) == 1
    assert not kept_files(store, "partial")
    (receipt,) = (json.loads(p.read_text()) for p in kept_files(store, "receipts"))
    assert (receipt["sha256"], receipt["md5"]) == (SHA256, MD5)
    assert receipt["bytes"] == len(BODY)


def test_two_addresses_with_one_name_keep_their_own_content(web: Web, store: FileStore) -> None:
    web.serve("/one/resnet50.pth", BODY)
    web.serve("/two/resnet50.pth", OTHER)
    one = RemoteFile(url=web.url("/one/resnet50.pth"), name="resnet50.pth")
    two = RemoteFile(url=web.url("/two/resnet50.pth"), name="resnet50.pth")
    assert store.get(one).read_bytes() == BODY
    assert store.get(two).read_bytes() == OTHER
    assert store.get(one).read_bytes() == BODY
    assert store.place(one) != store.place(two)


def test_a_known_content_is_found_under_another_address(web: Web, store: FileStore) -> None:
    web.serve("/a", BODY)
    path = store.get(remote(web.url("/a")))
    assert store.get(remote(web.url("/mirror"), sha256=SHA256.upper())) == path
    assert len(web.requests) == 1


@pytest.mark.parametrize("damage", ["changed", "changed back in time", "cut", "gone"])
def test_what_was_damaged_in_the_store_is_fetched_again(
    web: Web, store: FileStore, damage: str
) -> None:
    web.serve("/a", BODY)
    file = remote(web.url("/a"))
    path = store.get(file)
    before = path.stat()
    path.chmod(0o644)
    if damage == "gone":
        path.unlink()
    else:
        path.write_bytes({"changed": OTHER, "cut": BODY[:-1]}.get(damage, BODY[::-1]))
    if damage == "changed back in time":
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert store.find(file) is None
    assert store.missing([file, file]) == [file]
    assert store.get(file).read_bytes() == BODY
    assert len(web.requests) == 2


def test_an_unreadable_receipt_only_costs_another_look(web: Web, store: FileStore) -> None:
    web.serve("/a", BODY)
    file = remote(web.url("/a"), sha256=SHA256)
    path = store.get(file)
    for receipt in kept_files(store, "receipts"):
        receipt.write_text('{"path": 3}')
    assert store.find(file) == path
    assert len(web.requests) == 1


def test_what_is_learnt_later_is_held_against_what_is_kept(web: Web, store: FileStore) -> None:
    web.serve("/a", OTHER)
    store.get(remote(web.url("/a")))
    assert store.find(remote(web.url("/a"), sha256_prefix=SHA256[:8])) is None


# Checks.


@pytest.mark.parametrize(
    ("known", "expected", "actual"),
    [
        ({"sha256": SHA256}, SHA256, OTHER_SHA256),
        ({"sha256_prefix": SHA256[:8]}, SHA256[:8], OTHER_SHA256),
        ({"md5": MD5}, MD5, hashlib.md5(OTHER).hexdigest()),
        ({"md5": MD5[:8].upper()}, MD5[:8], hashlib.md5(OTHER).hexdigest()),
        ({"bytes": len(BODY), "sha256": SHA256, "md5": MD5}, SHA256, OTHER_SHA256),
    ],
)
def test_the_right_content_passes_and_the_wrong_is_refused(
    web: Web, store: FileStore, known: dict[str, object], expected: str, actual: str
) -> None:
    web.serve("/right", BODY)
    web.serve("/wrong", OTHER)
    error = refused(lambda: store.get(remote(web.url("/wrong"), **known)))
    assert expected in error.message
    assert actual in error.message
    assert str(store.place(remote(web.url("/wrong")))) in (error.hint or "")
    assert not kept_files(store, "partial", "sha256", "receipts")
    assert store.get(remote(web.url("/right"), **known)).read_bytes() == BODY


def test_a_length_other_than_published_is_refused_before_it_is_fetched(
    web: Web, store: FileStore
) -> None:
    web.serve("/a", BODY)
    error = refused(lambda: store.get(remote(web.url("/a"), bytes=7)))
    assert "300000 bytes" in error.message
    assert not kept_files(store, "partial", "sha256")


def test_an_empty_answer_is_no_file(web: Web, store: FileStore) -> None:
    web.serve("/a", b"")
    assert "empty" in refused(lambda: store.get(remote(web.url("/a")))).message


def test_a_content_called_an_encoding_stays_as_it_is(web: Web, store: FileStore) -> None:
    # As servers do that take an archive's own compression for one of the way.
    web.serve("/data.tar.gz", BODY, headers={"Content-Encoding": "x-gzip"})
    assert store.get(remote(web.url("/data.tar.gz"), sha256=SHA256)).read_bytes() == BODY


# Breaks, and going on after them.


@pytest.mark.parametrize("fault", [resets_after(CUT), ends_after(CUT)])
def test_a_break_is_gone_on_from(web: Web, store: FileStore, fault: Fault) -> None:
    web.serve("/a", BODY, faults=[fault])
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    first, second = web.ranges("/a")
    assert first is None
    assert second is not None
    assert 0 < int(second.removeprefix("bytes=").removesuffix("-")) <= CUT


def test_a_server_that_stalls_is_asked_again(web: Web, store: FileStore) -> None:
    event = threading.Event()
    web.serve("/a", BODY, faults=[waits_after(CUT, event)])
    started = time.monotonic()
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert len(web.requests) == 2
    assert time.monotonic() - started < PATIENCE_SECONDS / 2
    event.set()


def test_a_server_that_is_merely_slow_is_waited_for(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Longer in all than a stall, each pause shorter, also where the machine is busy.
    monkeypatch.setattr(transfer, "STALL_SECONDS", 2.0)
    web.serve("/a", BODY, always=trickles(8, threading.Event(), seconds=0.3))
    started = time.monotonic()
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert time.monotonic() - started > transfer.STALL_SECONDS
    assert len(web.requests) == 1


def test_without_an_etag_the_date_tells_versions_apart(web: Web, store: FileStore) -> None:
    date = {"Last-Modified": "Sat, 21 Nov 2026 10:00:00 GMT"}
    web.serve("/a", BODY, etag='W/"weak"', headers=date, faults=[ends_after(CUT)])
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert web.ranges("/a") == [None, f"bytes={CUT}-"]
    assert web.requests[1][1]["If-Range"] == date["Last-Modified"]


@pytest.mark.parametrize("how", [{"ranges": False}, {"etag": None}])
def test_a_server_that_cannot_go_on_starts_anew(
    web: Web, store: FileStore, how: dict[str, object]
) -> None:
    web.serve("/a", BODY, faults=[ends_after(CUT)], **how)
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert len(web.requests) == 2


@pytest.mark.parametrize("conditions", [True, False])
@pytest.mark.parametrize("length", [len(OTHER), 250_000, 100_000])
def test_a_content_that_changed_in_between_is_fetched_anew(
    web: Web, store: FileStore, conditions: bool, length: int
) -> None:
    def cut(handler: object, served: object) -> None:
        ends_after(CUT)(handler, served)  # type: ignore[arg-type]
        # Also a server that ignores If-Range, and sends the end of another content.
        web.serve("/a", OTHER[:length], etag='"second"', conditions=conditions)

    web.serve("/a", BODY, faults=[cut])
    assert store.get(remote(web.url("/a"))).read_bytes() == OTHER[:length]


def test_a_range_that_is_refused_starts_anew(web: Web, store: FileStore) -> None:
    web.serve("/a", BODY, faults=[ends_after(CUT), answers(416)])
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert web.ranges("/a") == [None, f"bytes={CUT}-", None]


def test_a_range_from_another_place_starts_anew(web: Web, store: FileStore) -> None:
    web.serve("/a", BODY, faults=[ends_after(CUT), mistakes_the_range()])
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert web.ranges("/a") == [None, f"bytes={CUT}-", None]


def test_without_a_length_the_published_one_is_held_to(web: Web, store: FileStore) -> None:
    web.serve("/cut", BODY, length=False, faults=[ends_after(CUT)])
    assert store.get(remote(web.url("/cut"), bytes=len(BODY))).read_bytes() == BODY
    assert len(web.requests) == 2
    sent: list[int] = []
    web.serve("/long", BODY, length=False, always=goes_on_and_on(sent))
    error = refused(lambda: store.get(remote(web.url("/long"), bytes=100_000)))
    assert "100000 bytes" in error.message
    assert sum(sent) < 32 * 2**20
    assert not kept_files(store, "partial")
    web.serve("/unknown", OTHER, length=False)
    assert store.get(remote(web.url("/unknown"))).read_bytes() == OTHER


@pytest.mark.parametrize("name", ["Content-Length", "Content-Range"])
def test_a_length_of_any_number_of_digits_is_no_length(
    web: Web, store: FileStore, name: str
) -> None:
    answer = f"HTTP/1.0 200 OK\r\n{name}: {'9' * 5000}\r\n\r\n".encode()
    web.serve("/a", BODY, always=sends(answer + BODY))
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY


def test_chunks_of_no_size_are_refused(web: Web, store: FileStore) -> None:
    answer = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-5\r\nabc"
    web.serve("/a", BODY, always=sends(answer))
    assert web.url("/a") in refused(lambda: store.get(remote(web.url("/a")))).message


def test_chunks_that_break_off_are_no_end(web: Web, store: FileStore) -> None:
    web.serve("/a", BODY, faults=[chunked_until(CUT)])
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert len(web.requests) == 2


def test_a_server_that_always_breaks_is_given_up(web: Web, store: FileStore) -> None:
    web.serve("/a", BODY, ranges=False, always=resets_after(CUT))
    assert web.url("/a") in refused(lambda: store.get(remote(web.url("/a")))).message
    assert len(web.requests) == transfer.ATTEMPTS


@pytest.mark.parametrize(
    ("fault", "of_server"),
    [
        *((ends_after(CUT), False), (resets_after(CUT), False), (answers(500), False)),
        *((answers(status), True) for status in (429, 502, 503, 504)),
        (answers(429, Retry_After="4000"), True),
        (sends(b""), True),
    ],
)
def test_other_files_are_asked_for_unless_the_server_fails(
    web: Web, store: FileStore, fault: Fault, of_server: bool
) -> None:
    web.serve("/a", BODY, ranges=False, always=fault)
    web.serve("/b", BODY)
    wanted = [remote(web.url(path)) for path in ("/a", "/b")]
    problems = fetch(wanted, store, lambda *_: None)
    assert len(problems) == 1 + of_server
    assert isinstance(problems[web.url("/a")], UnreachableError) == of_server
    assert store.missing(wanted) == wanted[: 1 + of_server]


def test_steady_progress_is_never_given_up(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "ATTEMPTS", 2)
    monkeypatch.setattr(transfer, "PROGRESS_BYTES", 20_000)
    web.serve("/a", BODY, faults=[ends_after(3 * 2**14)] * 7)
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY


def test_progress_on_another_content_is_counted_from_its_start(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "ATTEMPTS", 3)
    monkeypatch.setattr(transfer, "PROGRESS_BYTES", 20_000)
    web.serve("/a", OTHER, faults=[ends_after(17 * 2**14)], always=answers(500))
    refused(lambda: store.get(remote(web.url("/a"))))
    web.serve("/a", BODY, etag='"second"', faults=[ends_after(3 * 2**14)] * 5)
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY


@pytest.mark.parametrize("status", [500, 503, 429])
def test_a_server_in_trouble_is_asked_again(web: Web, store: FileStore, status: int) -> None:
    web.serve("/a", BODY, faults=[answers(status)] * 2)
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert len(web.requests) == 3


def test_a_server_decides_how_long_to_wait(web: Web, store: FileStore) -> None:
    web.serve("/a", BODY, faults=[answers(429, Retry_After="1")])
    started = time.monotonic()
    store.get(remote(web.url("/a")))
    assert time.monotonic() - started >= 1
    web.serve("/b", BODY, faults=[answers(503, Retry_After="4000")])
    assert "67 min" in refused(lambda: store.get(remote(web.url("/b")))).message
    long_ago = "Sat, 21 Nov 2015 10:00:00 GMT"
    web.serve("/c", BODY, faults=[answers(503, Retry_After=long_ago)])
    assert store.get(remote(web.url("/c"))).is_file()


@pytest.mark.parametrize("wait", ["0", "Sat, 21 Nov 2015 10:00:00 GMT", ""])
def test_waits_grow_whatever_a_server_allows(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch, wait: str
) -> None:
    waits: list[float] = []
    monkeypatch.setattr(transfer.time, "sleep", waits.append)
    web.serve("/a", BODY, always=answers(503, Retry_After=wait))
    refused(lambda: store.get(remote(web.url("/a"))))
    least = [0.75 * transfer.FIRST_WAIT_SECONDS * 2**number for number in range(4)]
    assert len(waits) == 4
    assert all(mine >= each for mine, each in zip(waits, least, strict=True))


@pytest.mark.parametrize("status", [404, 403, 410, 451])
def test_a_refusal_is_final(web: Web, store: FileStore, status: int) -> None:
    web.serve("/a", BODY, always=answers(status))
    error = refused(lambda: store.get(remote(web.url("/a"))))
    assert str(status) in error.message
    assert str(store.place(remote(web.url("/a")))) in (error.hint or "")
    assert len(web.requests) == 1


def test_a_server_that_is_gone_is_unreachable(store: FileStore) -> None:
    with serving() as gone:
        url = gone.url("/a")
    file = remote(url, sha256_prefix="0676ba61")
    error = refused(lambda: store.get(file))
    assert isinstance(error, UnreachableError)
    assert "0676ba61" in (error.hint or "")
    assert str(store.place(file)) in (error.hint or "")


# Redirects.


def test_redirects_are_followed(web: Web, store: FileStore) -> None:
    web.serve("/a", b"", always=leads_to("/b"))
    web.serve("/b", BODY, faults=[ends_after(CUT)])
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert web.ranges("/b") == [None, f"bytes={CUT}-"]


def test_a_circle_ends(web: Web, store: FileStore) -> None:
    web.serve("/a", b"", always=leads_to("/a"))
    assert "10 times" in refused(lambda: store.get(remote(web.url("/a")))).message
    assert len(web.requests) == 11


@pytest.mark.parametrize("target", [LOCAL, "ftp://127.0.0.1/x", "FILE:/etc/x"])
def test_nothing_leads_off_the_web(web: Web, store: FileStore, target: str) -> None:
    web.serve("/a", b"", always=leads_to(target))
    error = refused(lambda: store.get(remote(web.url("/a"))))
    assert f" {target.partition(':')[0].lower()}:" in error.message
    assert len(web.requests) == 1


@pytest.mark.parametrize(
    "target", [b"/\xff\xfe", b"http://" + b"a" * 70 + b".com/", b"http://../", b"http://x:99999/"]
)
def test_a_redirect_to_nowhere_is_refused(web: Web, store: FileStore, target: bytes) -> None:
    answer = b"HTTP/1.0 302 Found\r\nLocation: " + target + b"\r\n\r\n"
    web.serve("/a", b"", always=sends(answer))
    error = refused(lambda: store.get(remote(web.url("/a"))))
    assert len(web.requests) == 1
    assert str(store.place(remote(web.url("/a")))) in (error.hint or "")


def test_what_comes_with_a_redirect_is_not_read(web: Web, store: FileStore) -> None:
    sent: list[int] = []
    web.serve("/a", b"", always=sends(b"HTTP/1.0 302 Found\r\nLocation: /b\r\n\r\n", sent))
    web.serve("/b", BODY)
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert sum(sent) < 32 * 2**20


@pytest.mark.parametrize("url", [LOCAL, "weights.pth", "https://", "http://[x"])
def test_only_addresses_on_the_web_are_fetched(store: FileStore, url: str) -> None:
    assert refused(lambda: store.get(remote(url, sha256=SHA256))).message


# Pages in the place of files.


@pytest.mark.parametrize(
    ("page", "named"),
    [
        (b"<html><title>Google Drive - Exceeded</title>Too many users", "quota"),
        (b"<!DOCTYPE html><p>can't scan this file for viruses</p>", "confirm"),
        (b"\n <html><title>Please \x1b[2Jlog in</title>", r"'Please \x1b[2Jlog in'"),
    ],
)
@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/octet-stream"])
def test_a_page_is_no_file(web: Web, store: FileStore, page: bytes, named: str, kind: str) -> None:
    web.serve("/a", page, headers={"Content-Type": kind})
    error = refused(lambda: store.get(remote(web.url("/a"), bytes=len(BODY))))
    assert named in error.message
    assert not kept_files(store, "partial", "sha256")


@pytest.mark.parametrize(
    ("body", "headers", "named"),
    [
        (b'{"error": "no such file"}', {}, "JSON"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", {}, "Git LFS"),
        (gzip.compress(BODY), {"Content-Encoding": "gzip"}, "compressed"),
    ],
)
def test_other_things_than_files_are_called_by_their_names(
    web: Web, store: FileStore, body: bytes, headers: dict[str, str], named: str
) -> None:
    web.serve("/a", body, headers=headers)
    assert named in refused(lambda: store.get(remote(web.url("/a")))).message
    assert not kept_files(store, "partial", "sha256")
    if not headers:
        by_hand = store.place(remote(web.url("/a")))
        by_hand.parent.mkdir(parents=True)
        by_hand.write_bytes(body)
        assert named in refused(lambda: store.get(remote(web.url("/a")))).message


def test_a_servers_words_are_shown_short_and_plain(web: Web, store: FileStore) -> None:
    web.serve("/a", b"", always=sends(b"HTTP/1.0 404 \x1b[2J" + b"x" * 9_000 + b"\r\n\r\n"))
    message = refused(lambda: store.get(remote(web.url("/a")))).message
    assert message.isprintable()
    assert len(message) < 300


def test_a_safetensors_header_is_no_page() -> None:
    # 8508 bytes of header, read as letters.
    assert not is_page(b"<!" + bytes(6) + b'{"__metadata__":{}}')
    assert is_page(b"<?xml version='1.0'?><Error/>")


def test_google_drive_is_asked_for_the_content() -> None:
    content = "https://drive.usercontent.google.com/download?id=1aB_c-D&export=download&confirm=t"
    for url in (
        "https://drive.google.com/uc?id=1aB_c-D",
        "https://drive.google.com/uc?export=download&id=1aB_c-D",
        "https://drive.google.com/file/d/1aB_c-D/view?usp=sharing",
    ):
        assert direct_address(url) == content
        assert "1aB_c-D" in browser_address(url)


# Room on the disk.


def test_a_full_disk_is_seen_before_the_fetch(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 10**12, 10**9 + 10))
    web.serve("/a", BODY)
    error = refused(lambda: store.get(remote(web.url("/a"))))
    assert "300 kB" in error.message
    assert not web.requests[1:]
    assert not kept_files(store, "partial", "sha256")


def test_a_content_without_an_end_leaves_room_on_the_disk(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "LOOK_BYTES", 2**22)
    free = iter([2**31, 2**31, 2**20])
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 0, next(free)))
    sent: list[int] = []
    web.serve("/a", BODY, length=False, always=goes_on_and_on(sent))
    assert "1.05 MB" in refused(lambda: store.get(remote(web.url("/a")))).message
    assert sum(sent) < 64 * 2**20


def test_a_disk_that_fills_up_keeps_what_came(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_open = Path.open

    def full(path: Path, mode: str = "r", *rest: object, **more: object) -> object:
        if mode == "ab":
            raise OSError(28, "No space left on device")
        return real_open(path, mode, *rest, **more)  # type: ignore[call-overload]

    web.serve("/a", BODY)
    with monkeypatch.context() as patched:
        patched.setattr(Path, "open", full)
        error = refused(lambda: store.get(remote(web.url("/a"))))
    assert "No space left on device" in error.message
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY


def test_a_store_that_cannot_be_made_is_refused(web: Web, tmp_path: Path) -> None:
    (tmp_path / "files").write_text("a file")
    web.serve("/a", BODY)
    error = refused(lambda: a_store(tmp_path).get(remote(web.url("/a"))))
    assert str(tmp_path / "files") in error.message


# Many processes.


def fetching(store: FileStore, url: str, count: int) -> subprocess.Popen[bytes]:
    command = [
        sys.executable,
        "-m",
        "tests.catalog.downloads.fetch_file",
        str(store.root),
        url,
        str(count),
    ]
    return subprocess.Popen(command, cwd=Path(__file__).parents[3])


def test_ten_processes_fetch_one_file_once(web: Web, store: FileStore) -> None:
    web.serve("/a", BODY, always=trickles(5, threading.Event(), seconds=0.1))
    with fetching(store, web.url("/a"), 10) as processes:
        assert processes.wait(PATIENCE_SECONDS) == 0
    assert web.ranges("/a") == [None]
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY


def test_a_killed_download_is_gone_on_from(web: Web, store: FileStore) -> None:
    event = threading.Event()
    web.serve("/a", BODY, faults=[waits_after(250_000, event)])
    with fetching(store, web.url("/a"), 1) as process:
        partial = store.root / "partial"
        # A note that is being written has a hidden name for a moment.
        until(lambda: any(p.stat().st_size > 100_000 for p in partial.glob("[!.]*")))
        for child in children_of(process.pid):
            os.kill(child, signal.SIGKILL)
        assert process.wait(PATIENCE_SECONDS) == 1
    event.set()
    assert store.find(remote(web.url("/a"))) is None
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    first, second = web.ranges("/a")
    assert first is None
    assert int((second or "").removeprefix("bytes=").removesuffix("-")) > 100_000


def test_a_download_killed_after_its_last_byte_asks_for_nothing(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    web.serve("/a", BODY)
    with monkeypatch.context() as patched:
        patched.setattr(store_module, "content_of", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            store.get(remote(web.url("/a")))
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert len(web.requests) == 1


# Files put there by hand, and the caches of others.


def test_a_file_put_there_by_hand_is_checked_and_taken_in(tmp_path: Path) -> None:
    store = a_store(tmp_path, offline=True)
    file = remote("https://example.org/weights.pth", sha256_prefix=SHA256[:8])
    place = store.place(file)
    place.parent.mkdir(parents=True)
    place.write_bytes(OTHER)
    error = refused(lambda: store.find(file))
    assert all(named in error.message for named in (str(place), SHA256[:8], OTHER_SHA256))
    assert store.missing([file]) == [file]
    assert str(place) in refused(lambda: store.require([file])).message
    assert place.read_bytes() == OTHER
    place.write_bytes(BODY)
    path = store.get(file)
    assert path == store.root / "sha256" / SHA256[:2] / SHA256
    assert not place.exists()
    store.require([file])


def put_by_hand(tmp_path: Path) -> tuple[FileStore, RemoteFile, Path]:
    """Return a store without a network, a file that was put there by hand, and its place."""
    store = a_store(tmp_path, offline=True)
    file = remote("https://example.org/weights.pth", sha256=SHA256)
    place = store.place(file)
    place.parent.mkdir(parents=True)
    place.write_bytes(BODY)
    return store, file, place


def test_a_store_that_can_only_be_read_uses_what_lies_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, file, place = put_by_hand(tmp_path)
    # The tests' user may write everywhere.
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert store.get(file) == store.find(file) == place
    store.require([file])
    assert not kept_files(store, "sha256", "locks")
    place.write_bytes(OTHER)
    assert str(place) in refused(lambda: store.find(file)).message


@pytest.mark.parametrize("writable", [True, False])
def test_a_file_put_there_by_hand_that_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writable: bool
) -> None:
    store, file, place = put_by_hand(tmp_path)

    def closed(path: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    # The tests' user may read and write everywhere.
    monkeypatch.setattr(store_module, "content_of", closed)
    monkeypatch.setattr(os, "access", lambda *_: writable)
    assert store.missing([file]) == [file]
    message = refused(lambda: store.find(file)).message
    assert str(place) in message
    assert os.strerror(errno.EACCES) in message


def test_a_page_saved_by_hand_is_seen_without_a_hash(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    file = remote("https://example.org/weights.pth")
    store.place(file).parent.mkdir(parents=True)
    store.place(file).write_bytes(b"<html>Sign in")
    assert "web page" in refused(lambda: store.get(file)).message


def test_a_pipe_in_torchs_cache_is_not_waited_for(tmp_path: Path) -> None:
    pipe = tmp_path / "torch" / "hub" / "checkpoints" / "weights.pth"
    pipe.parent.mkdir(parents=True)
    os.mkfifo(pipe)
    with pytest.raises(OSError, match="pipe"):
        content_of(pipe)
    assert a_store(tmp_path).find(remote("https://example.org/weights.pth", sha256=SHA256)) is None


def test_a_link_put_there_by_hand_is_used_and_watched(tmp_path: Path) -> None:
    store = a_store(tmp_path)
    file = remote("https://example.org/weights.pth", md5=MD5)
    elsewhere = tmp_path / "mine.pth"
    elsewhere.write_bytes(BODY)
    store.place(file).parent.mkdir(parents=True)
    store.place(file).symlink_to(elsewhere)
    assert store.get(file) == store.find(file) == store.place(file)
    elsewhere.write_bytes(OTHER)
    assert MD5 in refused(lambda: store.find(file)).message
    elsewhere.unlink()
    assert store.find(file) is None


def test_a_name_never_leads_out_of_its_folder(store: FileStore) -> None:
    for name in ("../../x", "..", "", "/etc/passwd", "a/b"):
        place = store.place(RemoteFile(url="https://example.org/x", name=name))
        assert place.parent.parent == store.root / "incoming"
        assert ".." not in place.parts
    for name in ("x" * 5_000 + ".pth", "\u4e2d" * 300 + ".pth", "a\0b\n\x1b[2J.pth"):
        file = RemoteFile(url="https://example.org/x", name=name)
        assert store.find(file) is None
        assert str(store.place(file)).isprintable()
        assert store.place(file).suffix == ".pth"


@pytest.mark.parametrize("right", [True, False])
def test_torchs_cache_is_used_where_the_hash_is_right(tmp_path: Path, right: bool) -> None:
    cached = tmp_path / "torch" / "hub" / "checkpoints" / "resnet50.pth"
    cached.parent.mkdir(parents=True)
    cached.write_bytes(BODY if right else OTHER)
    store = a_store(tmp_path, offline=True)
    url = "https://example.org/vicreg/resnet50.pth"
    file = RemoteFile(url=url, name="resnet50.pth", sha256_prefix=SHA256[:8])
    assert store.find(file) == (cached if right else None)
    # Without a hash it could be anybody's resnet50.pth.
    assert store.find(RemoteFile(url=url + "?x", name="resnet50.pth")) is None
    cached.write_bytes(OTHER)
    assert store.find(file) is None


@pytest.mark.parametrize("right", [True, False])
def test_the_hubs_cache_is_used(tmp_path: Path, right: bool) -> None:
    folder = tmp_path / "hub" / "models--timm--resnet50.a1_in1k"
    snapshot = folder / "snapshots" / "c0ffee"
    for made in (folder / "refs", folder / "blobs", snapshot):
        made.mkdir(parents=True)
    (folder / "refs" / "main").write_text("c0ffee")
    (folder / "blobs" / SHA256).write_bytes(BODY if right else OTHER)
    (snapshot / "model.safetensors").symlink_to(Path("../../blobs") / SHA256)
    store = a_store(tmp_path, offline=True)
    file = RemoteFile(url="hf://timm/resnet50.a1_in1k/model.safetensors", name="x")
    assert store.find(file) == (snapshot / "model.safetensors" if right else None)
    assert store.find(RemoteFile(url="hf://timm/other/model.safetensors", name="x")) is None


# The model hub.


@pytest.mark.parametrize("stated", [SHA256, "0" * 64])
def test_the_hub_is_asked_with_its_login_and_its_storage_without(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch, stated: str
) -> None:
    monkeypatch.setattr(constants, "ENDPOINT", web.url("").rstrip("/"))
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    file = RemoteFile(url="hf://timm/vit_tiny/my model.safetensors", name="model.safetensors")
    with serving() as storage:
        storage.serve("/blob", BODY)
        there = leads_to(storage.url("/blob?signature=sig"), X_Linked_Etag=f'"{stated}"')
        web.serve("/timm/vit_tiny/resolve/main/my%20model.safetensors", b"", always=there)
        if stated == SHA256:
            assert store.get(file).read_bytes() == BODY
        else:
            message = refused(lambda: store.get(file)).message
            assert stated in message
            assert SHA256 in message
        assert web.requests[0][1]["Authorization"] == "Bearer hf_secret"
        assert "Authorization" not in storage.requests[0][1]


@pytest.mark.parametrize(
    "url",
    [
        "hf://timm",
        "hf://timm/x",
        "hf://timm/x/",
        "hf://a/b/../../c",
        "hf://a b/c/d",
        "hf://a..b/c/d",
        "hf://a/b--c/d",
        "hf://a/b.git/d",
        f"hf://a/{'b' * 97}/d",
    ],
)
def test_an_incomplete_address_on_the_hub_is_refused(store: FileStore, url: str) -> None:
    assert "hf://OWNER/REPOSITORY/FILE" in refused(lambda: store.get(remote(url))).message


def test_a_login_that_cannot_be_one_is_refused(
    store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "\u043a\u043b\u044e\u0447")
    file = remote("hf://timm/resnet50/model.safetensors")
    error = refused(lambda: store.get(file))
    assert "HF_TOKEN" in error.message
    assert "\u043a" not in error.message


def test_certificates_that_are_not_there_are_named(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none.pem"))
    url = web.url("/a").replace("http:", "https:")
    assert "none.pem" in refused(lambda: store.get(remote(url))).message


# Without a network.


def test_offline_lists_all_that_is_missing_in_one_go(web: Web, tmp_path: Path) -> None:
    web.serve("/here", BODY)
    here = remote(web.url("/here"))
    a_store(tmp_path).get(here)
    store = a_store(tmp_path, offline=True)
    one = RemoteFile(
        url="https://example.org/one.pth",
        name="one.pth",
        sha256_prefix="0676ba61",
        bytes=97_800_000,
    )
    two = RemoteFile(
        url="hf://timm/x/model.safetensors", name="model.safetensors", md5="abcd", bytes=10**9
    )
    assert store.missing([here, one, two]) == [one, two]
    error = refused(lambda: store.require([here, one, two, one]))
    named = [
        *("1.1 GB", "one.pth", "97.8 MB", "0676ba61", one.url, str(store.place(one))),
        *("model.safetensors", "1 GB", "abcd", str(store.place(two))),
        "https://huggingface.co/timm/x/resolve/main/model.safetensors",
    ]
    assert not [each for each in named if each not in error.message]
    assert error.message.count(one.url) == 1
    assert one.url in refused(lambda: store.get(one)).message
    assert len(web.requests) == 1
    assert not store.place(one).parent.exists()
    store.require([here])
    rounded = RemoteFile(url="https://example.org/r.pth", name="r.pth", about_bytes=97_800_000)
    assert "97.8 MB" in refused(lambda: store.require([rounded])).message


# Secrets.


@pytest.mark.parametrize(
    "fault",
    [
        None,
        answers(404),
        answers(503),
        resets_after(10),
        leads_to(f"{LOCAL}?token=SECRET"),
        leads_to("/a?token=SECRET"),
        answers(200, b"<html>"),
    ],
)
def test_passwords_and_tokens_of_an_address_are_never_shown(
    web: Web, store: FileStore, fault: Fault | None
) -> None:
    served = web.serve("/a", BODY, always=fault, ranges=False)
    url = web.url("/a?token=SECRET#SECRET").replace("http://", "http://user:SECRET@")
    error = refused(lambda: store.get(remote(url, sha256="0" * 64)))
    shown = "".join(traceback.format_exception(error)) + str(error.hint)
    shown += refused(lambda: store.require([remote(url)])).message
    served.always = None
    store.get(remote(url))
    shown += "".join(p.read_text() for p in kept_files(store, "receipts"))
    assert "SECRET" not in shown
    assert public_address(url) in shown
    assert "SECRET" not in "".join(str(p) for p in store.root.rglob("*"))


def test_a_note_that_cannot_be_written_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "note.json").mkdir()
    with pytest.raises(OSError, match="note"):
        write_note(tmp_path / "note.json", RemoteFile(url="https://host/file", name="file"))
    assert [path.name for path in tmp_path.iterdir()] == ["note.json"]


def test_a_server_below_the_least_rate_is_given_up(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "RATE_SECONDS", 0.2)
    monkeypatch.setattr(transfer, "ATTEMPTS", 2)
    # Each pause is shorter than a stall, and all of it would take twice as long as is allowed.
    web.serve("/a", BODY[:12_000], always=trickles(12_000, threading.Event(), seconds=0.05))
    started = time.monotonic()
    error = refused(lambda: store.get(remote(web.url("/a"))))
    assert time.monotonic() - started < PATIENCE_SECONDS / 2
    assert isinstance(error, UnreachableError)
    assert len(web.requests) == 2


@pytest.mark.parametrize(
    "beginning", [b"", b"HTTP/1.1 200 OK\r\nX: ", b"HTTP/1.1 100 Continue\r\nX: "]
)
def test_headers_that_come_byte_by_byte_are_given_up(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch, beginning: bytes
) -> None:
    monkeypatch.setattr(pace, "HEADERS_SECONDS", 0.2)
    web.serve("/a", BODY, faults=[drips_after(beginning)])
    started = time.monotonic()
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert (len(web.requests), time.monotonic() - started < PATIENCE_SECONDS / 2) == (2, True)


def test_a_chunk_whose_size_never_ends_is_given_up(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace, "RATE_SECONDS", 0.2)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;"
    web.serve("/a", BODY, faults=[drips_after(head)])
    started = time.monotonic()
    assert store.get(remote(web.url("/a"))).read_bytes() == BODY
    assert (len(web.requests), time.monotonic() - started < PATIENCE_SECONDS / 2) == (2, True)


def test_a_content_of_unknown_length_has_a_greatest(
    web: Web, store: FileStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transfer, "UNSTATED_BYTES", 2**22)
    sent: list[int] = []
    web.serve("/a", BODY, length=False, always=goes_on_and_on(sent))
    assert "4194304" in refused(lambda: store.get(remote(web.url("/a")))).message
    assert sum(sent) < 64 * 2**20
    assert not kept_files(store, "partial", "sha256")
