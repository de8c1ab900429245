"""Addresses of files: where bytes are fetched from, and how an address is shown.

Owns the two kinds that are not fetched as they are written: files on the model hub
(``hf://OWNER/REPOSITORY[@REVISION]/FILE``) and Google Drive's, whose usual address answers with a
page.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple
from urllib.parse import SplitResult, parse_qs, quote, unquote, urlencode, urlsplit, urlunsplit

from survey.errors import DownloadError

HUB = "hf://"
#: Stands in the place of a file for the listing of its repository's files.
LISTING = "?"
_REVISION = re.compile(r"[\w.%-]+")
_DRIVE = "drive.google.com"
_DRIVE_CONTENT = "drive.usercontent.google.com"
#: Without ``confirm`` a large file is answered with a page that asks whether one is sure.
_DRIVE_CONFIRMED = {"export": "download", "confirm": "t"}


class HubFile(NamedTuple):
    """A file on the model hub."""

    #: Owner and name of its repository, such as ``timm/resnet50.a1_in1k``.
    repository: str
    #: Its path within the repository, or ``LISTING``.
    path: str
    #: The branch, tag or commit.
    revision: str = "main"


def address_key(url: str) -> str:
    """Return the sha256 (hex) of an address: what the notes about it are filed under."""
    return hashlib.sha256(url.encode()).hexdigest()


def hub_file(url: str) -> HubFile | None:
    """Return the hub's file that an address names; None for other addresses.

    Raises
    ------
    DownloadError
        If it begins with ``hf://`` but names no file.
    """
    if not url.startswith(HUB):
        return None
    # Documented, but missing from the names that its types declare.
    from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

    owner, _, rest = url.removeprefix(HUB).partition("/")
    name, _, path = rest.partition("/")
    name, at, revision = name.partition("@")
    try:
        validate_repo_id(f"{owner}/{name}")
        if {"", ".", ".."} & set(path.split("/")):
            raise ValueError(path)
        if at and not _REVISION.fullmatch(revision):
            raise ValueError(revision)
    except ValueError:
        raise DownloadError(
            f"{url} names no file on the model hub, must be hf://OWNER/REPOSITORY/FILE"
        ) from None
    return HubFile(f"{owner}/{name}", path, unquote(revision) or "main")


def direct_address(url: str) -> str:
    """Return the http address that gives a file's bytes rather than a page about it.

    Raises
    ------
    DownloadError
        If the address is neither on the web nor on the model hub.
    """
    on_hub = hub_file(url)
    if on_hub is not None:
        # Knows the environment's HF_ENDPOINT, so that mirrors work.
        from huggingface_hub import constants

        revision = quote(on_hub.revision, safe="")
        if on_hub.path == LISTING:
            repository = f"{constants.ENDPOINT}/api/models/{on_hub.repository}"
            return f"{repository}/revision/{revision}?blobs=true"
        return f"{constants.ENDPOINT}/{on_hub.repository}/resolve/{revision}/{quote(on_hub.path)}"
    parts = _split(url)
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise DownloadError(
            f"{public_address(url)} cannot be fetched, an address must begin with https://,"
            " http:// or hf://"
        )
    drive_id = _drive_id(parts)
    if drive_id is not None:
        query = urlencode({"id": drive_id, **_DRIVE_CONFIRMED})
        return f"https://{_DRIVE_CONTENT}/download?{query}"
    return url


def public_address(url: str) -> str:
    """Return an address as messages and notes show it: without passwords, query and fragment.

    A query may hold a token. Google Drive's keeps its ``id``, without which it means nothing.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return "an address that cannot be read"
    host = parts.netloc.rpartition("@")[2]
    shown = urlunsplit((parts.scheme, host, parts.path, "", ""))
    drive_id = _drive_id(parts)
    return f"{shown}?{urlencode({'id': drive_id})}" if parts.query and drive_id else shown


def browser_address(url: str) -> str:
    """Return the address under which a person gets the file, without passwords and tokens."""
    drive_id = _drive_id(_split(url))
    return public_address(url if drive_id is not None else direct_address(url))


def _split(url: str) -> SplitResult:
    try:
        return urlsplit(url)
    except ValueError:
        raise DownloadError(f"{public_address(url)}, so nothing can be fetched from it") from None


def _drive_id(parts: SplitResult) -> str | None:
    """Return which file of Google Drive is meant: ``?id=ID`` or ``/file/d/ID/view``."""
    if parts.hostname not in {_DRIVE, _DRIVE_CONTENT}:
        return None
    named = parse_qs(parts.query).get("id")
    if named:
        return named[0]
    folders = parts.path.split("/")
    return folders[3] if folders[1:3] == ["file", "d"] and len(folders) > 3 else None
