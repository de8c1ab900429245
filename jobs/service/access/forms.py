"""Form tokens: a page's form is taken only from a page that this service wrote for this caller."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from http import HTTPStatus

from fastapi import Request

from jobs.service.access.hosts import SAFE_METHODS
from jobs.service.problems import Refusal

#: The hidden field of every form.
FIELD = "form_token"

# Another service has another one: the forms of pages that were open then are loaded again.
_KEY = secrets.token_bytes(32)


def form_token(request: Request) -> str:
    """Return the token that a form of the page for this request carries."""
    name: str = request.state.caller.name
    return hmac.new(_KEY, name.encode(), hashlib.sha256).hexdigest()


async def require_form_token(request: Request) -> None:
    """Refuse a form that does not come from a page of this service; every page depends on it."""
    if request.method in SAFE_METHODS:
        return
    given = (await request.form()).get(FIELD)
    if not isinstance(given, str) or not hmac.compare_digest(
        given.encode(), form_token(request).encode()
    ):
        raise Refusal(
            HTTPStatus.FORBIDDEN,
            "the form does not come from a page of this service, or is older than it",
            "load the page again",
        )
