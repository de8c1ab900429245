"""Bringing a home's registry to this program's version, after a copy of it was kept."""

from __future__ import annotations

from catalog.copies import contents_of, kept_before_migration
from catalog.files import appearing
from catalog.home import Home
from catalog.registry.address import record_url
from catalog.registry.copying import copy_to_file, holds_another
from catalog.registry.database import REGISTRY_LOGS, connected, registry_engine
from catalog.registry.revisions import (
    apply,
    known_revisions,
    make_registry,
    revision_of,
    take_turn,
)


def upgrade_registry(home: Home) -> None:
    """Make the registry's tables, or apply the migrations that they lack.

    A new file appears under its name with all its tables or not at all. One process at a time may
    do this in a home.

    Raises
    ------
    StoreError
        If it is no registry, is newer than this program, or cannot be written or copied.
    """
    if home.registry_url is None and not home.registry.exists():
        with appearing(home.registry, REGISTRY_LOGS) as fresh:
            make_registry(fresh)
        return
    with connected(registry_engine(home)) as connection:
        new = bool(home.registry_url) and not home.registry_address.exists()
        if not new and revision_of(connection) == known_revisions()[-1]:
            return
        take_turn(connection)
        # Read again: another process may have had its turn.
        revision = revision_of(connection)
        if new:
            if revision is not None:
                raise holds_another()
            # Before the tables: a home that remembers a database without any makes them.
            record_url(home)
        if revision is not None and revision != known_revisions()[-1]:
            _keep(home, revision)
        apply(connection)
        connection.commit()


def _keep(home: Home, revision: str) -> None:
    with kept_before_migration(home.registry, revision) as copy:
        copy_to_file(home, copy)
        contents_of(copy)
