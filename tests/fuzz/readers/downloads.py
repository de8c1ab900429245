"""What servers answer, their addresses, and the notes that are kept of downloads."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

import requests

from catalog.downloads.caches import cached_copies
from catalog.downloads.missing_files import missing_files
from catalog.downloads.partial import Partial
from catalog.downloads.responses import (
    Passing,
    check_content,
    check_redirect,
    check_status,
    first_byte,
    version_of,
)
from catalog.downloads.store import FileStore
from catalog.downloads.urls import address_key, direct_address
from catalog.models.base import RemoteFile
from survey.errors import SurveyError
from tests.fuzz.readers.base import Target

_FILE = RemoteFile(url="https://example.org/a.pth", name="a.pth", sha256="0" * 64)
_NOTE = b'{"validator": "x", "bytes": 3, "sha256": null}'
_RECEIPT = {"sha256": "0" * 64, "md5": "0" * 32, "bytes": 3, "url": "u", "path": "sha256/00/a"}


def _note(data: bytes, folder: Path) -> None:
    """The note of a partial download, beside its bytes."""
    partial = Partial(folder, "part")
    partial.path.write_bytes(b"abc")
    (folder / "part.json").write_bytes(data)
    with contextlib.suppress(requests.RequestException):
        requests.Request("GET", _FILE.url, headers=partial.range_headers()).prepare()
    if partial.version is not None:
        partial.version.agrees_with(partial.version)
    json.dumps(partial.complete)


def _receipt(data: bytes, folder: Path) -> None:
    """The note of a file that was received."""
    receipts = folder / "receipts"
    receipts.mkdir(exist_ok=True)
    (receipts / f"{address_key(_FILE.url)}.json").write_bytes(data)
    FileStore(folder).find(_FILE)


def _response(data: bytes, folder: Path) -> None:
    """A server's headers and the start of its answer."""
    head, _, body = data.partition(b"\n\n")
    lines = [line.split(":", 1) for line in head.decode("latin-1").split("\n")]
    answer = requests.Response()
    answer.url, answer.raw = _FILE.url, contextlib.closing(None)
    answer.raw.close = lambda: None
    answer.status_code = len(lines[0][0]) + 195
    answer.headers.update({line[0]: line[1] for line in lines if len(line) == 2})
    with contextlib.suppress(SurveyError):
        check_redirect(answer)
    with contextlib.suppress(Passing, SurveyError):
        check_status(answer)
    with contextlib.suppress(SurveyError):
        check_content(answer, body, "name")
    first_byte(answer)
    json.dumps(str(version_of(answer)))


def _address(data: bytes, folder: Path) -> None:
    """The address of a file, as a list of somebody's may have it."""
    text = data.decode("utf-8", "surrogateescape")
    file = RemoteFile(url=text.encode("utf-8", "replace").decode(), name=text[-99:])
    with contextlib.suppress(SurveyError):
        direct_address(file.url)
    with contextlib.suppress(SurveyError):
        list(cached_copies(file))
    store = FileStore(folder)
    raise missing_files({file: store.place(file)})


def _responses() -> list[bytes]:
    headers = b'Content-Length: 9\nETag: "x"\nRetry-After: 3\nContent-Range: bytes 1-9/10'
    page = b"<html><title>x</title>"
    return [
        b"12345\n" + headers + b"\n\n" + page,
        b"12345\n\n\n\x80\x02}",
        b"x" * 107 + b"\nLocation: http://a.b/c\n\n",
        b"x" * 234 + b"\nRetry-After: Wed, 21 Oct 2015 07:28:00 GMT\n\n",
    ]


def _addresses() -> list[bytes]:
    return [
        b"https://u:p@example.org:80/a/b.pth?token=x#y",
        b"hf://timm/resnet18.a1_in1k@main/model.safetensors",
        b"https://drive.google.com/file/d/ID/view?id=x",
        b"http://[::1]/%2e%2e/a",
    ]


TARGETS = {
    "note": Target(_note, lambda: [_NOTE], document=True),
    "receipt": Target(
        _receipt,
        lambda: [json.dumps(_RECEIPT | {"modified_ns": 1, "received": "2020"}).encode()],
        document=True,
    ),
    "response": Target(_response, _responses),
    "address": Target(_address, _addresses),
}
