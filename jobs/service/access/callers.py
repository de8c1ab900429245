"""Who sends a request: the bearer of a token, or on loopback anybody, and what they may do."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from datetime import UTC, datetime
from http import HTTPStatus
from typing import get_args

from starlette.requests import Request

from catalog.registry.policies import TokenScope
from catalog.registry.rows import AccessToken
from catalog.registry.tokens import Tokens, is_usable
from jobs.choices import Suffix
from jobs.service import API
from jobs.service.access.attempts import WrongTokens
from jobs.service.access.hosts import MCP_PATH, SAFE_METHODS
from jobs.service.problems import Refusal
from jobs.service.settings import ServiceSettings

#: What only reads although its requests have a body.
READING_POSTS = frozenset(
    (MCP_PATH, f"{API}/sql", *(f"{API}/sql.{suffix}" for suffix in get_args(Suffix)))
)

_HINT = "`survey token add NAME` makes one; send it as Authorization: Bearer, or as a password"

# A browser asks for a user and a password, whose token becomes the password.
_CHALLENGE = {"WWW-Authenticate": 'Basic realm="survey", charset="UTF-8", Bearer realm="survey"'}


@dataclass(frozen=True, slots=True)
class Caller:
    """Who sends a request."""

    #: The token's name; empty for anybody on this machine.
    name: str = ""
    scope: TokenScope = "write"

    def require(self, scope: TokenScope) -> None:
        """Refuse a caller who may only read what takes more."""
        if scope == "write" and self.scope != "write":
            raise Refusal(
                HTTPStatus.FORBIDDEN,
                f"the token {self.name!r} may only read",
                "`survey token add NAME --scope write` makes one that may change things",
            )


class Callers:
    """Finds out who sends a request.

    Parameters
    ----------
    settings : ServiceSettings
        Beyond loopback everybody needs a token.
    tokens : Tokens
        Those that there are.
    """

    def __init__(self, settings: ServiceSettings, tokens: Tokens) -> None:
        self._settings, self._tokens = settings, tokens
        self._wrong = WrongTokens()

    def of(self, request: Request) -> Caller:
        """Return who sends a request, allowed to do what its method does.

        Raises
        ------
        Refusal
            If a token is needed or wrong, or does not allow it.
        """
        given = request.headers.get("authorization")
        if given is None and not self._settings.on_loopback:
            raise _unknown("a token is needed")
        caller = Caller() if given is None else self._bearer(request, given)
        reads = request.method in SAFE_METHODS or request.url.path in READING_POSTS
        caller.require("read" if reads else "write")
        return caller

    def _bearer(self, request: Request, given: str) -> Caller:
        address = request.client.host if request.client else ""
        if seconds := self._wrong.seconds_to_wait(address):
            raise Refusal(
                HTTPStatus.TOO_MANY_REQUESTS,
                "too many wrong tokens came from this address",
                f"wait {seconds} seconds",
                {"Retry-After": str(seconds)},
            )
        token = self._tokens.of_secret(_secret(given))
        if token is None:
            # One that is over is no guess, and behind its address there may be others.
            self._wrong.count(address)
        if token is None or not is_usable(token, datetime.now(UTC)):
            raise _unknown(_reason(token))
        return Caller(token.name, token.scope)


def is_still_let_in(caller: Caller, tokens: Tokens) -> bool:
    """Return whether a caller's token is usable still: answers that last ask again."""
    if not caller.name:
        return True
    token = tokens.of_name(caller.name)
    return token is not None and is_usable(token, datetime.now(UTC))


def _reason(token: AccessToken | None) -> str:
    if token is None:
        return "the token is unknown"
    return f"the token {token.name!r} {'has expired' if token.revoked_at is None else 'is revoked'}"


def _unknown(message: str) -> Refusal:
    return Refusal(HTTPStatus.UNAUTHORIZED, message, _HINT, _CHALLENGE)


def _secret(authorization: str) -> str:
    """Return the secret that a header holds; empty where it holds none."""
    scheme, _, value = authorization.strip().partition(" ")
    if scheme.lower() == "bearer":
        return value.strip()
    if scheme.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except (binascii.Error, UnicodeDecodeError):
        return ""
