"""Making a backup of a home while a scan writes.

The backup is laid out as a home is. The registry is copied first: of what it says is done, the rows
were durable before, so that they are in the copies made after it. Then the store's file and the
spool's segments are copied while the store is held as a reader holds it: the writer goes on in the
spool and merges nothing, so that each row lies in the copied file, in a copied segment, or in both
under a name that the file knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from catalog.backup.folder import appearing_folder
from catalog.backup.manifest import Manifest, write_manifest
from catalog.copies import Contents, contents_of, copy_file
from catalog.home import REPAIR_HINT, Home, segment_paths
from catalog.registry.copying import copy_to_file
from catalog.registry.repair import registry_damage
from catalog.registry.revisions import check_registry
from catalog.store.connection import connect_reading
from catalog.store.repair import store_damage
from catalog.store.segments import read_segment
from catalog.store.upgrade import check_version
from survey import __version__
from survey.errors import StoreError


def make_backup(home: Home, folder: Path) -> Manifest:
    """Write a backup of a home: every row acknowledged when this began, each once.

    Parameters
    ----------
    home : Home
        An opened home; a scan may be writing to it.
    folder : Path
        Where the backup appears, whole; nothing may be there.

    Returns
    -------
    Manifest
        What is in it.

    Raises
    ------
    SettingsError
        If there is something at the folder's place.
    StoreError
        If the home is damaged or newer than this program, or the backup cannot be written; then
        nothing is left of it.
    """
    began = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
    with appearing_folder(folder, "backup") as fresh:
        copy = Home(fresh)
        _refuse_newer(home)
        copy.spool.mkdir()
        copy_to_file(home, copy.registry)
        files = {copy.registry.name: contents_of(copy.registry), **dict(_cut(home, copy))}
        _refuse_damage(copy, home)
        manifest = Manifest(began, __version__, files)
        write_manifest(fresh, manifest)
    return manifest


def _refuse_newer(home: Home) -> None:
    """Refuse a registry that no restore of this program would take."""
    # A file that is missing is explained by the copy: opening it would make one.
    if home.registry_url is not None or home.registry.is_file():
        check_registry(home)


def _cut(home: Home, copy: Home) -> Iterator[tuple[str, Contents]]:
    """Copy the store and the spool as they are at one moment."""
    # Closed after the connection: closing any descriptor of a file ends the process's locks on it.
    with home.signatures.open("rb") as store, connect_reading(home.signatures) as connection:
        check_version(connection, home.signatures, oldest=0)
        for path in segment_paths(home.spool):
            # One that vanishes now is in the store: it was merged before this held it.
            with suppress(FileNotFoundError), path.open("rb") as segment:
                yield f"{copy.spool.name}/{path.name}", copy_file(segment, copy.spool / path.name)
        yield copy.signatures.name, copy_file(store, copy.signatures)


def _refuse_damage(copy: Home, home: Home) -> None:
    damage = store_damage(copy.signatures) or registry_damage(copy) or _spool_damage(copy)
    if damage:
        raise StoreError(f"{home.path} is damaged: {damage}", hint=REPAIR_HINT)


def _spool_damage(copy: Home) -> str | None:
    for path in segment_paths(copy.spool):
        try:
            read_segment(path)
        except StoreError as error:
            return f"segment {path.name}: {error.__cause__}"
    return None
