"""HTTP responses: whether one holds the file, a web page instead of it, or a refusal."""

from __future__ import annotations

import html
import re
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from urllib.parse import urljoin, urlsplit

from requests import Response

from catalog.downloads.partial import Version
from survey.errors import DownloadError
from survey.text import shortened

#: Answers that may be different a little later.
_PASSING = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}

#: Those that any other file would get too.
_OF_SERVER = {
    HTTPStatus.TOO_MANY_REQUESTS,
    HTTPStatus.BAD_GATEWAY,
    HTTPStatus.SERVICE_UNAVAILABLE,
    HTTPStatus.GATEWAY_TIMEOUT,
}

#: What the answers that stay the same mean, and what to do then.
_REFUSALS: dict[int, tuple[str, str]] = {
    HTTPStatus.UNAUTHORIZED: (
        "it asks for a login, or nothing is there",
        "log in there; for the model hub run `hf auth login` or set HF_TOKEN",
    ),
    HTTPStatus.FORBIDDEN: (
        "access is not allowed",
        "its publisher may ask for a login or for consent to a licence",
    ),
    HTTPStatus.NOT_FOUND: ("nothing is there", "the file may have moved"),
    HTTPStatus.GONE: ("the file was removed", "look for a copy elsewhere"),
}

#: Patterns in the pages of large-file services, and their meaning.
_PAGES = (
    (re.compile(rb"quota|too many users", re.I), "the host's download quota for it is used up"),
    (re.compile(rb"virus|download anyway", re.I), "the host asks a person to confirm"),
    (re.compile(rb"sign in|log in|password", re.I), "the host asks for a login"),
)

_PAGE_START = re.compile(rb"\s*<[a-zA-Z!?]")
_TITLE = re.compile(rb"<title[^>]*>(.*?)</title>", re.I | re.S)
_PAGE_BYTES = 2**16
#: More digits than the length of any file has; Python refuses to read thousands of them.
_LENGTH = r"(\d{1,18})"
_GZIP = b"\x1f\x8b"
_GZIPPED_NAMES = (".gz", ".tgz")

#: How other things begin that are sent in the place of files, and what they are; JSON first.
_MESSAGES = (
    (re.compile(rb"""\s*[{[]\s*["'{]"""), "a message (JSON)"),
    (re.compile(rb"version https://git-lfs"), "a Git LFS pointer, not the content it points to"),
)


class Passing(Exception):
    """A failure that may pass by itself, so that trying again makes sense.

    Parameters
    ----------
    reason : str
        What happened, for a message.
    least_wait : float
        Seconds to wait at least.
    of_server : bool
        Whether it is the server that fails, and not one file of it.
    """

    def __init__(self, reason: str, least_wait: float = 0.0, *, of_server: bool = False) -> None:
        super().__init__(reason)
        self.reason, self.least_wait, self.of_server = reason, least_wait, of_server


def check_redirect(response: Response, *_: object, **__: object) -> None:
    """Refuse an answer that leads away from the web, or from https to http.

    Raises
    ------
    DownloadError
        If the answer leads there. Nothing has been asked of the new address then.
    """
    if not response.is_redirect:
        return
    # What comes with it is of no use, and reading it to its end might never end.
    response.raw.close()
    response._content = b""
    try:
        target = urlsplit(urljoin(response.url, response.headers["Location"])).scheme
    except ValueError:
        target = "an address that cannot be read"
    allowed = {"https"} if urlsplit(response.url).scheme == "https" else {"https", "http"}
    if target not in allowed:
        raise DownloadError(
            f"the server leads on to {target}:, allowed is {' or '.join(sorted(allowed))}"
        )


def check_status(response: Response) -> None:
    """Go on only if an answer holds content.

    Raises
    ------
    Passing
        If another try may get it.
    DownloadError
        If no other try will.
    """
    status = response.status_code
    if status in {HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT}:
        return
    reason = shortened(" ".join((response.reason or "").split()), 60)
    answer = f"the server answers {status} {reason}".rstrip()
    if status in _PASSING or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise Passing(answer, _retry_after(response), of_server=status in _OF_SERVER)
    meaning, hint = _REFUSALS.get(status, ("the file is not offered", ""))
    raise DownloadError(f"{answer}: {meaning}", hint=hint or None)


def check_content(response: Response, head: bytes, name: str) -> None:
    """Refuse a web page, another message or a compressed body in the place of a file.

    Parameters
    ----------
    response : Response
        The answer.
    head : bytes
        How its body begins.
    name : str
        What the file is called.

    Raises
    ------
    DownloadError
        If it is none; the message names what it is.
    """
    kind = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    if kind in {"text/html", "application/xhtml+xml"} or is_page(head):
        raise DownloadError(f"the server answers with a web page: {_page_meaning(head)}")
    message = notice(head, name)
    if message is not None:
        raise DownloadError(f"the server answers with {message}")
    encoded = response.headers.get("Content-Encoding", "identity") != "identity"
    if encoded and head.startswith(_GZIP) and not name.lower().endswith(_GZIPPED_NAMES):
        raise DownloadError("the server sends it compressed, although it was asked not to")


def is_page(head: bytes) -> bool:
    """Return whether a file that begins like this is a web page (or another kind of XML)."""
    # No NUL: safetensors begins with its header's length, which may look like any letters.
    return bool(_PAGE_START.match(head)) and b"\0" not in head[:64]


def notice(head: bytes, name: str) -> str | None:
    """Return what a file that begins like this is instead of content; None where it may be that.

    A file whose name says so may hold JSON.
    """
    if is_page(head):
        return "a web page"
    if b"\0" in head[:64]:
        return None
    messages = _MESSAGES[name.lower().endswith(".json") :]
    return next((what for start, what in messages if start.match(head)), None)


def version_of(response: Response) -> Version:
    """Return which version of the content an answer is of."""
    etag = response.headers.get("ETag", "")
    # A weak tag does not promise the same bytes.
    strong = etag if etag and not etag.startswith("W/") else None
    return Version(
        strong or response.headers.get("Last-Modified"),
        _whole_length(response),
        _hub_sha256(response),
    )


def first_byte(response: Response) -> int | None:
    """Return where in the whole content an answer begins; None where no header states it."""
    if response.status_code != HTTPStatus.PARTIAL_CONTENT:
        return 0
    header = re.match(rf"bytes {_LENGTH}-", response.headers.get("Content-Range", ""))
    return int(header[1]) if header else None


def _whole_length(response: Response) -> int | None:
    if response.status_code == HTTPStatus.PARTIAL_CONTENT:
        header = re.match(rf"bytes \d+-\d+/{_LENGTH}$", response.headers.get("Content-Range", ""))
        return int(header[1]) if header else None
    length = re.fullmatch(_LENGTH, response.headers.get("Content-Length", ""), re.ASCII)
    # With a transfer encoding the length means something else, or nothing.
    plain = "Transfer-Encoding" not in response.headers
    return int(length[1]) if plain and length else None


def _hub_sha256(response: Response) -> str | None:
    """Return the sha256 that the model hub states before it leads on to its storage."""
    for answer in (*response.history, response):
        stated = answer.headers.get("X-Linked-Etag", "").strip('"')
        if re.fullmatch(r"[0-9a-f]{64}", stated):
            return stated
    return None


def _retry_after(response: Response) -> float:
    """Return how many seconds a server asks to wait: a number, until a date, or none."""
    header = response.headers.get("Retry-After", "").strip()
    if header.isascii() and header.isdigit():
        return float(header)
    try:
        until = parsedate_to_datetime(header)
    except (ValueError, OverflowError):
        return 0.0
    return max(0.0, (until.replace(tzinfo=until.tzinfo or UTC) - datetime.now(UTC)).total_seconds())


def _page_meaning(body: bytes) -> str:
    body = body[:_PAGE_BYTES]
    meaning = next((sentence for pattern, sentence in _PAGES if pattern.search(body)), None)
    title = _TITLE.search(body)
    text = html.unescape(title[1].decode("utf-8", "replace")) if title else ""
    text = " ".join(text.split())[:80]
    return "; ".join(filter(None, [meaning, f"its title is {text!r}" if text else None])) or (
        "a notice or a login instead of the file"
    )
