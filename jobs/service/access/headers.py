"""Headers of every response, that bind browsers to what the pages need."""

from __future__ import annotations

from starlette.datastructures import MutableHeaders
from starlette.types import Message, Send

#: Nothing inline, and nothing from elsewhere.
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'"
    "; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

_HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    # Without any referrer the forms of our own pages would come from the origin `null`.
    "Referrer-Policy": "same-origin",
    "X-Content-Type-Options": "nosniff",
    # Measurements change, and may be for their reader alone.
    "Cache-Control": "private, no-cache",
}


def adding_headers(send: Send) -> Send:
    """Return a ``send`` that adds the headers that a response does not have."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in _HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending
