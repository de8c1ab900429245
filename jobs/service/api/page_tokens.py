"""Tokens of pages: where the next page begins, as an opaque text."""

from __future__ import annotations

import base64
import json
from http import HTTPStatus
from typing import Any

from jobs.service.problems import Refusal


def token_of(content: Any) -> str:
    """Return what JSON can hold as a token."""
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode()


def content_of(token: str) -> Any:
    """Return what a token holds.

    Raises
    ------
    ValueError
        If it is no token.
    """
    try:
        content = json.loads(base64.b64decode(token, b"-_", validate=True), parse_int=_whole)
        # JSON can spell halves of letters, which no database takes.
        json.dumps(content, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError(*error.args) from None
    return content


def _whole(digits: str) -> int:
    """Return a whole number that databases can hold."""
    if not -(2**63) <= (number := int(digits)) < 2**63:
        raise ValueError
    return number


def wrong_token(what: str) -> Refusal:
    """Return the refusal of a token that is none of some rows."""
    return Refusal(
        HTTPStatus.BAD_REQUEST,
        f"next is no token of {what} in this order",
        "begin with the first page and leave the sort as it was: other runs may count now",
    )
