"""Queries that users of the service keep, each under a name."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import delete

from catalog.registry.database import Database
from catalog.registry.rows import SavedQuery
from catalog.registry.tables import SAVED_QUERIES
from survey.errors import SettingsError, UnknownName

#: Queries that are kept at most.
MOST_SAVED = 200


@dataclass(frozen=True, slots=True)
class SavedQueries:
    """The saved queries of a registry."""

    #: The registry's.
    database: Database

    def all(self) -> list[SavedQuery]:
        """Return them by name."""
        return self.database.rows(SavedQuery, SAVED_QUERIES, order=[SAVED_QUERIES.c.name])

    def save(self, name: str, sql: str, now: datetime) -> None:
        """Keep a query; it takes the place of another of that name.

        Raises
        ------
        SettingsError
            If there are too many.
        """
        known = {query.name for query in self.all()}
        if name not in known and len(known) >= MOST_SAVED:
            raise SettingsError(f"{MOST_SAVED} queries are kept already", hint="remove one first")
        self.database.upsert(SAVED_QUERIES, {"name": name}, {"sql": sql, "saved_at": now})

    def remove(self, name: str) -> None:
        """Forget a query.

        Raises
        ------
        UnknownName
            If there is none of that name.
        """
        known = [query.name for query in self.all()]
        if name not in known:
            raise UnknownName("saved query", name, known)
        with self.database.transaction() as connection:
            connection.execute(delete(SAVED_QUERIES).where(SAVED_QUERIES.c.name == name))
