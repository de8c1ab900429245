"""What lets clients of the service in: tokens, of whose secrets only hashes are kept."""

from __future__ import annotations

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, inspect, update

from catalog.registry.database import Database
from catalog.registry.policies import TokenScope
from catalog.registry.rows import AccessToken
from catalog.registry.tables import TOKENS
from survey.errors import SettingsError, UnknownName

#: What a secret begins with, so that scanners for leaked secrets know it.
PREFIX = "survey_"

_SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Tokens:
    """The tokens of a registry."""

    #: The registry's.
    database: Database

    def add(
        self, name: str, scope: TokenScope, now: datetime, expires_at: datetime | None = None
    ) -> str:
        """Make a token and return its secret, which nobody can find out later.

        Raises
        ------
        SettingsError
            If there is, or was, one of that name; if the name cannot be read.
        """
        if not name.strip() or not name.isprintable():
            raise SettingsError(
                f"the name of a token is {name!r}, must be text that can be read",
                hint="name who or what uses it, such as ci",
            )
        secret = PREFIX + secrets.token_urlsafe(_SECRET_BYTES)
        new = self.database.insert(TOKENS).values(
            name=name, sha256=_hash(secret), scope=scope, created_at=now, expires_at=expires_at
        )
        added = new.on_conflict_do_nothing(index_elements=["name"]).returning(TOKENS.c.id)
        with self.database.transaction() as connection:
            if connection.execute(added).scalar_one_or_none() is None:
                raise SettingsError(
                    f"there is, or was, a token {name!r} already", hint="choose another name"
                )
        return secret

    def all(self) -> list[AccessToken]:
        """Return the tokens by name; a registry of an older program has none."""
        with self.database.transaction() as connection:
            if not inspect(connection).has_table(TOKENS.name):
                return []
        return self.database.rows(AccessToken, TOKENS, order=[TOKENS.c.name])

    def of_secret(self, secret: str) -> AccessToken | None:
        """Return the token with a secret, be it expired or revoked; None if there is none."""
        return self._one(TOKENS.c.sha256 == _hash(secret))

    def of_name(self, name: str) -> AccessToken | None:
        """Return the token of a name, be it expired or revoked; None if there is none."""
        return self._one(TOKENS.c.name == name)

    def revoke(self, name: str, now: datetime) -> bool:
        """Revoke a token; return whether it was not revoked before.

        Raises
        ------
        UnknownName
            If there is none of that name.
        """
        known = [token.name for token in self.all()]
        if name not in known:
            raise UnknownName("token", name, known)
        valid = (TOKENS.c.name == name) & TOKENS.c.revoked_at.is_(None)
        with self.database.transaction() as connection:
            return bool(
                connection.execute(update(TOKENS).where(valid).values(revoked_at=now)).rowcount
            )

    def _one(self, same: ColumnElement[bool]) -> AccessToken | None:
        return next(iter(self.database.rows(AccessToken, TOKENS, same, order=[])), None)


def is_usable(token: AccessToken, now: datetime) -> bool:
    """Return whether a token lets anybody in at a moment."""
    expired = token.expires_at is not None and token.expires_at <= now
    return token.revoked_at is None and not expired


def _hash(secret: str) -> str:
    # Of so many random bits none can be guessed from the hash: it needs no salt and no slowness.
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).hexdigest()
