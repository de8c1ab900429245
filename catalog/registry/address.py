"""Which database a home's registry is in, where that is not the file in the home.

The home remembers it in ``registry.toml``, so that every command finds it. No password is kept or
taken: PostgreSQL's library reads it from its own places.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from urllib.parse import quote

from catalog.bounds import open_file, parse_toml, read_at_most
from catalog.files import whole_file
from catalog.home import Home
from survey.errors import SettingsError, StoreError

#: Bytes of the longest file that is read.
_MOST_BYTES = 2**16

_ALLOWED = "postgresql://USER@HOST/DATABASE"


def checked_url(url: str) -> str:
    """Return a URL as SQLAlchemy takes it.

    Raises
    ------
    SettingsError
        If it names no database on PostgreSQL, or holds a password, which the error does not show.
    """
    # Imported where a URL is given: it takes longer than most queries.
    from sqlalchemy.engine import make_url
    from sqlalchemy.exc import ArgumentError

    try:
        parsed = make_url(url)
    except (ArgumentError, ValueError):
        raise SettingsError(
            f"the registry's URL cannot be read; it must be like {_ALLOWED}",
            hint="write @ and / within a name as %40 and %2F",
        ) from None
    if parsed.password is not None or "password" in parsed.query:
        raise SettingsError(
            "the registry's URL holds a password",
            hint="leave it out: PGPASSWORD, ~/.pgpass or a service file give it to the library",
        )
    if parsed.drivername not in ("postgresql", "postgresql+psycopg") or not parsed.database:
        raise SettingsError(
            f"the registry's URL names {parsed.drivername!r} and database {parsed.database!r},"
            f" must be like {_ALLOWED}",
            hint="leave the option out for a file of SQLite in the home",
        )
    return parsed.set(drivername="postgresql+psycopg").render_as_string()


def recorded_url(home: Home) -> str | None:
    """Return the URL that a home remembers; None where its registry is the file in it.

    Raises
    ------
    StoreError
        If what it remembers cannot be read, or names no database on PostgreSQL.
    """
    try:
        with open_file(home.registry_address) as file:
            text = read_at_most(file, _MOST_BYTES, str(home.registry_address)).decode()
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise _unreadable(home.registry_address, str(error)) from error
    try:
        return checked_url(str(parse_toml(text)["url"]))
    except (ValueError, KeyError) as error:
        raise _unreadable(home.registry_address, f"no `url` in TOML ({error})") from error
    except SettingsError as error:
        raise _unreadable(home.registry_address, error.message) from error


def record_url(home: Home) -> None:
    """Let a home remember its registry's URL: the file appears whole and lasts."""
    text = f"# The database of this home's registry.\nurl = {json.dumps(home.registry_url)}\n"
    with whole_file(home.registry_address, f".{os.getpid()}.new", lasting=True) as fresh:
        fresh.write_text(text, encoding="utf-8")


def addressed(home: Home) -> Home:
    """Return a home with the registry that it remembers, or with the one that is asked for.

    Raises
    ------
    SettingsError
        If another one is asked for than it has.
    StoreError
        If what it remembers cannot be read.
    """
    recorded = recorded_url(home)
    if home.registry_url is None:
        return Home(home.path, recorded)
    asked = checked_url(home.registry_url)
    if recorded is None and home.registry.exists():
        raise SettingsError(
            f"the registry of {home.path} is the file {home.registry.name} in it",
            hint="to move it, make a backup and restore that with --registry; else leave it out",
        )
    if recorded not in (None, asked):
        raise SettingsError(
            f"the registry of {home.path} is at {recorded}, not at {asked}",
            hint="leave --registry out: the home remembers it",
        )
    return Home(home.path, asked)


def reading_address(file: Path) -> str:
    """Return the URI by which SQLite reads a registry's file, others writing it or not.

    Raises
    ------
    StoreError
        If its log holds rows that this user cannot read.
    """
    log, index = (file.with_name(file.name + ending) for ending in ("-wal", "-shm"))
    address = f"file:{quote(str(file))}?mode="
    logged = log.exists() and log.stat().st_size
    if os.access(file.parent, os.W_OK) and os.access(file, os.W_OK):
        # Reading makes a log, which only who may write removes; one with rows stays as it is.
        return f"{address}{'ro' if logged else 'rw'}"
    if logged and not index.exists():
        raise StoreError(
            f"{log} holds rows that only who may write it can read",
            hint="copy the home to a directory that can be written",
        )
    # Beside a file of another user nothing is left that this one could not write. Without a log
    # SQLite has to promise itself that the file stays as it is.
    return f"{address}ro" if logged else f"{address}ro&immutable=1"


def _unreadable(path: Path, why: str) -> StoreError:
    return StoreError(f"{path} cannot be read: {why}", hint=f'write url = "{_ALLOWED}" into it')
