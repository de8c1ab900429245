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
        return json.loads(base64.b64decode(token, b"-_", validate=True))
    except RecursionError as error:
        raise ValueError(*error.args) from None


def wrong_token(what: str) -> Refusal:
    """Return the refusal of a token that is none of some rows."""
    return Refusal(
        HTTPStatus.BAD_REQUEST,
        f"next is no token of {what} in this order",
        "begin with the first page and leave the sort as it was: other runs may count now",
    )
