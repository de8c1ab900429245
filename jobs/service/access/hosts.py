"""Whose requests are answered: hosts against DNS rebinding, origins against other sites' pages.

A page of another site can make a browser send requests here. By a name of its own for this machine
it would read the answers too: so the host that a request names must be one of ours.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from contextlib import suppress
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.requests import Request

from jobs.service.problems import Refusal
from jobs.service.settings import ServiceSettings, is_loopback

#: Methods that change nothing; HEAD is a GET by then.
SAFE_METHODS = frozenset({"GET", "OPTIONS"})

#: Where the Model Context Protocol is spoken.
MCP_PATH = "/mcp"

_HOST = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\s:/?#@\[\]]+)(?::\d{1,5})?")

_FORM, _JSON = "application/x-www-form-urlencoded", "application/json"


def require_host(request: Request, settings: ServiceSettings) -> None:
    """Refuse a request that names a host under which nobody should reach this service."""
    given = request.headers.get("host", "")
    match = _HOST.fullmatch(given)
    if match is None or not _is_ours(match[1].strip("[]").lower(), settings):
        raise Refusal(
            HTTPStatus.MISDIRECTED_REQUEST,
            f"the host {given!r} is none of this service",
            "use the address it listens at, or start it with --name for each name of its own",
        )


def _is_ours(host: str, settings: ServiceSettings) -> bool:
    named = {settings.host.lower(), "localhost", *(name.lower() for name in settings.names)}
    if settings.on_loopback:
        return host in named or is_loopback(host)
    # An address is nobody's name: it cannot be bound to another one.
    with suppress(ValueError):
        return bool(ipaddress.ip_address(host))
    return host in {*named, socket.gethostname().lower()}


def require_same_origin(request: Request) -> None:
    """Refuse what another site's page sends, but for a link that is followed."""
    unsafe = request.method not in SAFE_METHODS
    site, *kind = (request.headers.get(f"sec-fetch-{name}") for name in ("site", "mode", "dest"))
    # A frame navigates too, without anybody having followed a link.
    if site in ("cross-site", "same-site") and (unsafe or kind != ["navigate", "document"]):
        raise _foreign(site)
    origin = request.headers.get("origin")
    if unsafe and origin is not None and _netloc(origin) != request.headers["host"].lower():
        raise _foreign(origin)


def _netloc(origin: str) -> str | None:
    with suppress(ValueError):
        return urlsplit(origin).netloc.lower()
    return None


def _foreign(origin: str) -> Refusal:
    return Refusal(
        HTTPStatus.FORBIDDEN,
        f"the request comes from another site ({origin})",
        "open the page from this service itself",
    )


def require_content_type(request: Request) -> None:
    """Refuse what carries anything but JSON to the API, or but a form to a page.

    A page of another site can send forms without asking, never JSON.
    """
    if request.method in SAFE_METHODS or request.method == "DELETE":
        return
    wanted = _JSON if request.url.path.startswith(("/api/", MCP_PATH)) else _FORM
    given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if given != wanted:
        raise Refusal(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
            f"the content type is {given or 'missing'}, here it must be {wanted}",
            f"send Content-Type: {wanted}",
        )
