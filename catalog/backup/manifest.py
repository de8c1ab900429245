"""What a backup says of itself: every file with its bytes and hash, and a hash over all that."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from catalog.bounds import read_json
from catalog.copies import Contents
from catalog.files import write_all
from catalog.home import SEGMENT_ENDING, Home
from survey.errors import NewerError, SettingsError, StoreError

#: The file with the manifest in a backup.
NAME = "backup.json"

#: Bytes of the largest manifest that is read; a file of a home takes two hundred.
_MOST_BYTES = 2**26

#: The version of the layout of backups that this program writes, and the newest that it reads.
FORMAT = 1


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a backup says of itself."""

    #: When the backup began, in UTC, as ISO 8601: every row acknowledged by then is in it.
    made_at: str
    #: The version of the program that made it.
    made_by: str
    #: The files by their names in the backup.
    files: Mapping[str, Contents]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write the manifest of a backup; its hash shows a change of the manifest itself."""
    facts = {"format": FORMAT, **asdict(manifest)}
    text = json.dumps({**facts, "sha256": _hash_of(facts)}, indent=1)
    with (folder / NAME).open("xb", buffering=0) as file:
        write_all(file.fileno(), memoryview(text.encode()))
        os.fsync(file.fileno())


def read_manifest(folder: Path) -> Manifest:
    """Return the manifest of a backup whose files are those that it names.

    Raises
    ------
    SettingsError
        If there is no such folder.
    StoreError
        If the folder is no backup, was made by a newer program, or is not as it was made.
    """
    try:
        facts: dict[str, Any] = read_json(folder / NAME, _MOST_BYTES)
        stated = facts.pop("sha256")
        newer, unchanged = int(facts["format"]) > FORMAT, stated == _hash_of(facts)
        # Whoever writes the hash too may have written anything.
        files = {str(name): Contents(**each) for name, each in dict(facts.get("files", {})).items()}
    except OSError as error:
        kind = StoreError if folder.is_dir() else SettingsError
        raise kind(
            f"{folder} is no backup: {NAME} cannot be read ({error.strerror or error})",
            hint="name a directory that `survey backup` made",
        ) from error
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        raise changed(folder, NAME) from None
    if newer:
        raise NewerError(
            f"the backup {folder} has format {facts['format']}, this program knows {FORMAT}",
            hint=f"restore it with version {facts.get('made_by')} of this program",
        )
    if not unchanged:
        raise changed(folder, NAME)
    there = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if not path.is_dir()}
    strange = {name for name in files if not _belongs(name, Home(folder))}
    for name in sorted((there ^ {*files, NAME}) | strange):
        raise changed(folder, name)
    return Manifest(str(facts.get("made_at")), str(facts.get("made_by")), files)


def _belongs(name: str, copy: Home) -> bool:
    """Return whether a backup has a file of that name, whoever made it."""
    spool, _, segment = name.rpartition("/")
    if spool:
        return spool == copy.spool.name and segment.endswith(SEGMENT_ENDING)
    return name in (copy.signatures.name, copy.registry.name)


def changed(folder: Path, name: str) -> StoreError:
    """Return the error for a backup of which a file is missing, torn, changed or new."""
    return StoreError(
        f"the backup {folder} is not as it was made: {name} is missing, torn, changed or new",
        hint="restore another backup; nothing was written",
    )


def _hash_of(facts: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()
