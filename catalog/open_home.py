"""Opening a home: making its folders and stores, or bringing an older home up to date.

Safe from several processes at once; a home that cannot be made leaves nothing behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from catalog.files import sync_folder
from catalog.home import REPAIR_HINT, Home, segment_paths
from catalog.store.undo import lock_path, recover, undo_path
from survey.errors import SettingsError, StoreError

#: How long opening waits for another process that is making or repairing the same home.
OPENING_SECONDS = 60.0


def open_home(path: Path, create: bool, registry_url: str | None = None) -> Home:
    """Return the home, its folders and stores made and of this program's version.

    Parameters
    ----------
    path : Path
        The directory.
    create : bool
        Whether to make what is missing. Without it nothing is written: stores of an older
        version are refused when they are read.
    registry_url : str, optional
        A database on PostgreSQL for the registry of a new home, instead of the SQLite file in it;
        without a password. A home remembers it.

    Raises
    ------
    SettingsError
        If there is no home and none is to be made, the path lies below a file, or the URL is none
        of a database on PostgreSQL, or not that of the home.
    StoreError
        If the directory cannot be written, what lies in it is no store of ours, or the store is
        missing and its log is not.
    """
    home = Home(Path(path).absolute(), registry_url)
    _refuse_bytes(home.path)
    _refuse_files(home.path)
    if home.registry_url or home.registry_address.exists():
        from catalog.registry.address import addressed

        home = addressed(home)
    _recover(home)
    if create:
        _make(home)
    elif not home.signatures.is_file():
        raise SettingsError(
            f"there is no home at {home.path}", hint="run `survey run` first or pass --home"
        )
    return home


def existing_home(path: Path) -> Home | None:
    """Return the home, opened without writing to it; None where there is none yet.

    Raises
    ------
    SettingsError
        If there can be none, since the path lies below a file.
    """
    home = Home(Path(path).absolute())
    _refuse_files(home.path)
    return open_home(path, create=False) if home.signatures.is_file() else None


def reopen_home(home: Home) -> None:
    """Bring the stores of a home that was opened before up to date, such as a restored one.

    Raises
    ------
    StoreError
        If it has gone, such as to another place: none is made anew there. Otherwise as
        ``open_home``.
    """
    registry = home.registry_address if home.registry_url else home.registry
    if not registry.is_file():
        raise StoreError(
            f"the home {home.path} has gone: there is no {registry.name}",
            hint="put it back, or start again with its new place as --home",
        )
    open_home(home.path, create=True, registry_url=home.registry_url)


def _recover(home: Home) -> None:
    """Undo what a loss of power left half-written in the store, where nobody is writing it."""
    if undo_path(home.signatures).exists():
        # One that cannot be written is read as it is.
        with suppress(StoreError):
            recover(home.signatures)


def _refuse_bytes(path: Path) -> None:
    # The store's library takes no name that is not text, and its error names no path.
    try:
        str(path).encode()
    except UnicodeEncodeError:
        raise SettingsError(
            f"the home {str(path)!r} has a name that is not text in UTF-8",
            hint="pass --home with another directory",
        ) from None


def _refuse_files(path: Path) -> None:
    for place in (path, *path.parents):
        if place.exists() and not place.is_dir():
            below = "" if place == path else f"{path} lies below {place}, which "
            raise SettingsError(
                f"{below or place} is a file, a home is a directory",
                hint="pass --home with a directory",
            )


@contextmanager
def making(home: Home) -> Iterator[None]:
    """Keep other processes from making the files of a home meanwhile.

    Raises
    ------
    StoreError
        If another process keeps this one from it for ``OPENING_SECONDS``.
    """
    try:
        with FileLock(home.making_lock, timeout=OPENING_SECONDS):
            yield
    except Timeout as error:
        raise StoreError(
            f"another process has been making or repairing {home.path} for"
            f" {OPENING_SECONDS:g} seconds",
            hint="wait for a repair, or end a process that hangs, then run the same command again",
        ) from error


def _make(home: Home) -> None:
    # Both libraries take longer to import than everything else a query needs.
    from catalog.registry.upgrade import upgrade_registry
    from catalog.store.upgrade import make_store, upgrade_store

    try:
        home.path.mkdir(parents=True, exist_ok=True)
        with making(home):
            # Before anything is made: what a repair finds missing it makes from the rest.
            if not home.signatures.exists() and segment_paths(home.merged):
                raise StoreError(
                    f"{home.signatures} is missing, its log {home.merged} is not", hint=REPAIR_HINT
                )
            for folder in (home.spool, home.logs, home.cache):
                folder.mkdir(exist_ok=True)
            if not home.signatures.exists():
                _sync_names_of(home.path)
            # First what another machine may refuse: without a store there is no home.
            upgrade_registry(home)
            # Readers look at its file, before the first merge too.
            with suppress(Timeout), FileLock(lock_path(home.signatures), timeout=0):
                pass
            if home.signatures.exists():
                upgrade_store(home.signatures)
            else:
                make_store(home.signatures)
    except OSError as error:
        raise StoreError(
            f"the home {home.path} cannot be written: {error.strerror or error}",
            hint="pass --home with a directory that can be written, or make this one writable",
        ) from error


def _sync_names_of(folder: Path) -> None:
    """Make the names of a folder and of those above it durable: any may have been made just now."""
    for above in folder.parents:
        # Who may write to one may not read it, and not every file system syncs folders.
        with suppress(OSError):
            sync_folder(above)
