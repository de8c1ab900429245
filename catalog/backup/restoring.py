"""Restoring a home from a backup: a new home, checked against the backup's hashes."""

from __future__ import annotations

from pathlib import Path

from catalog.backup.folder import appearing_folder
from catalog.backup.manifest import Manifest, changed, read_manifest
from catalog.bounds import open_file
from catalog.copies import copy_file
from catalog.home import Home
from catalog.registry.address import checked_url, record_url
from catalog.registry.copying import copy_from_file
from catalog.registry.revisions import check_registry
from catalog.store.connection import connect_reading
from catalog.store.upgrade import check_version
from survey.errors import StoreError


def restore_backup(folder: Path, path: Path, registry_url: str | None = None) -> Manifest:
    """Make a home of a backup; it appears whole, and no home with data is ever overwritten.

    Parameters
    ----------
    folder : Path
        The backup.
    path : Path
        The home, where there is nothing yet. Its stores stay of the version of the backup until it
        is next opened for writing.
    registry_url : str, optional
        A database on PostgreSQL for the registry, instead of a file in the home.

    Returns
    -------
    Manifest
        What the backup says of itself.

    Raises
    ------
    SettingsError
        If there is something at the home's place, or a registry in the database.
    StoreError
        If the backup is torn, changed or of a newer version, or the home cannot be written.
    """
    url = checked_url(registry_url) if registry_url else None
    manifest = read_manifest(folder)
    with appearing_folder(path, "home") as fresh:
        copy = Home(fresh)
        for each in (copy.spool, copy.logs, copy.cache):
            each.mkdir()
        for name, contents in manifest.files.items():
            with open_file(folder / name) as file:
                if copy_file(file, fresh / name) != contents:
                    raise changed(folder, name)
        _refuse_newer(copy, folder)
        if url:
            _move_registry(copy, Home(fresh, url))
    return manifest


def _move_registry(copy: Home, elsewhere: Home) -> None:
    record_url(elsewhere)
    copy_from_file(copy.registry, elsewhere)
    copy.registry.unlink()


def _refuse_newer(copy: Home, folder: Path) -> None:
    try:
        with connect_reading(copy.signatures) as connection:
            check_version(connection, folder / copy.signatures.name, oldest=0)
        check_registry(copy)
    except StoreError as error:
        raise type(error)(
            f"the backup {folder} cannot be used: {error.message}",
            hint="restore it with a program that is as new as the one that made it",
        ) from error
