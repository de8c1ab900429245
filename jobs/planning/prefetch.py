"""The remote files of a survey: which it needs, how large they are, and fetching them."""

from __future__ import annotations

import contextlib
import functools
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pyarrow as pa

from catalog.arrow_arrays import table_of
from catalog.datasets import needed_files
from catalog.hub_checkpoints import Find
from catalog.models.base import RemoteFile
from jobs.planning.definition import Definition
from jobs.planning.targets import targets
from jobs.planning.user_models import without_unconsented
from survey import CatalogError, DownloadError, SettingsError, UnreachableError
from survey.text import counted, format_bytes

if TYPE_CHECKING:
    from catalog.downloads import FileStore

#: The most bytes that a scan fetches by itself; ``survey fetch`` fetches more.
UNASKED_BYTES = 20 * 10**9

_INVENTORY = pa.schema(
    [
        ("file", pa.string()),
        ("state", pa.string()),
        ("bytes", pa.int64()),
        ("licence", pa.string()),
        ("sha256", pa.string()),
        ("url", pa.string()),
        ("place", pa.string()),
    ]
)

#: Called with a file, its bytes fetched so far and all its bytes (None where unknown).
Progress = Callable[[RemoteFile, int, int | None], None]


def needed(definition: Definition, find: Find) -> list[RemoteFile]:
    """Return the remote files of a survey, each once, fetched or not.

    Of a repository on the model hub whose listing is not here, it is the listing alone.

    Parameters
    ----------
    definition : Definition
        The survey.
    find : callable
        Returns where a fetched file lies; None where it is not here.

    Raises
    ------
    UnknownName, CatalogError
        If a model, checkpoint or dataset is unknown or unusable.
    """
    # Code of the user's brings its weights itself, so that none has to run.
    known, _ = without_unconsented(definition)
    files = [file for target in targets(known) for file in target.files(find).files]
    for choice in definition.datasets:
        files += needed_files(choice.full_name)
    return list({file.url: file for file in files}.values())


def supply(
    definition: Definition,
    store: FileStore,
    progress: Progress,
    most_bytes: float = UNASKED_BYTES,
) -> dict[str, CatalogError]:
    """Fetch the files of a survey that are missing; see ``supply_files``."""
    problems: dict[str, CatalogError] = {}
    asked: set[RemoteFile] = set()
    # Some files, once here, say which others there are.
    while files := [each for each in needed(definition, store.find) if each not in asked]:
        asked.update(files)
        problems |= supply_files(files, store, progress, most_bytes)
    return problems


def supply_files(
    files: Iterable[RemoteFile],
    store: FileStore,
    progress: Progress,
    most_bytes: float = UNASKED_BYTES,
) -> dict[str, CatalogError]:
    """Fetch the files that are missing.

    Parameters
    ----------
    files : iterable of RemoteFile
        The files needed.
    store : FileStore
        Keeps them. If it is offline, nothing is fetched and all missing files are listed.
    progress : Progress
        Called as bytes arrive.
    most_bytes : float
        The most bytes to fetch.

    Returns
    -------
    dict
        The problems of files that could not be fetched, by URL.

    Raises
    ------
    SettingsError
        If more than ``most_bytes`` are missing.
    DownloadError
        If the store is offline and something is lacking, or the disk is too small.
    """
    lacking = store.missing(files)
    if store.offline:
        store.require(lacking)
    known = known_bytes(lacking)
    if known > most_bytes:
        raise SettingsError(
            f"{counted(len(lacking), 'file')} of {format_bytes(known)} are not here, more than"
            f" {format_bytes(UNASKED_BYTES)} are fetched by survey fetch alone",
            hint=f"their terms: {_terms(lacking)}; look at each with survey fetch --dry-run, then"
            " survey fetch",
        )
    require_disk_space(lacking, store)
    return fetch(lacking, store, progress)


@contextlib.contextmanager
def listings(store: FileStore, *, ask: bool) -> Iterator[Find]:
    """Yield what finds a store's files and, if asked to, fetches listings of the hub without it."""
    from catalog.downloads import FileStore

    with tempfile.TemporaryDirectory() as folder:
        scratch = FileStore(Path(folder))

        def find(file: RemoteFile) -> Path | None:
            # Listings and indices of shards, which say which files there are.
            if (here := store.find(file)) or not ask or not file.name.endswith(".json"):
                return here
            with contextlib.suppress(DownloadError):
                return scratch.get(file)
            return None

        yield find


def require_disk_space(files: Iterable[RemoteFile], store: FileStore) -> None:
    """Refuse files of known size for which the disk has no room.

    Raises
    ------
    DownloadError
        If the disk is too small.
    """
    # Brings requests, which a survey that lacks nothing does not need.
    from catalog.downloads.transfer import SPARE_BYTES

    place = next(folder for folder in (store.root, *store.root.parents) if folder.exists())
    known, free = known_bytes(files), shutil.disk_usage(place).free
    if known and known + SPARE_BYTES > free:
        raise DownloadError(
            f"the files need {format_bytes(known)} and {format_bytes(SPARE_BYTES)} to spare, and"
            f" {place} has {format_bytes(free)} free",
            hint="make room, fetch fewer, or use --home on another disk",
        )


def _terms(files: Iterable[RemoteFile]) -> str:
    licences = Counter(file.licence or "not stated" for file in files)
    return ", ".join(f"{licence} ({count})" for licence, count in licences.most_common())


def known_bytes(files: Iterable[RemoteFile]) -> int:
    """Return the bytes of files, as far as their sizes are known."""
    return sum(file.bytes or file.about_bytes or 0 for file in files)


def size_of(files: Sequence[RemoteFile]) -> str:
    """Return the size of files as text, and how many have an unknown one."""
    unknown = sum(not (file.bytes or file.about_bytes) for file in files)
    more = f" and {counted(unknown, 'file')} of unknown size" if unknown else ""
    return f"{format_bytes(known_bytes(files))}{more}"


def fetch(
    files: Iterable[RemoteFile], store: FileStore, progress: Progress
) -> dict[str, CatalogError]:
    """Fetch files one after another; a failure does not stop the others.

    A server that did not answer is not asked for its other files.
    """
    problems: dict[str, CatalogError] = {}
    silent: dict[str, CatalogError] = {}
    for file in files:
        host = _host(file.url)
        if host in silent:
            problems[file.url] = DownloadError(
                f"{file.name} was not asked for: {host} did not answer a moment ago",
                hint=f"or fetch it by hand and put it at {store.place(file)}",
            )
            continue
        try:
            store.get(file, functools.partial(progress, file))
        except UnreachableError as problem:
            problems[file.url] = silent[host] = problem
        except CatalogError as problem:
            problems[file.url] = problem
    return problems


def _host(url: str) -> str:
    """Return the server of a URL, without the login it may hold; the model hub's is ``hf:``."""
    try:
        parts = urlsplit(url)
    except ValueError:
        # Not fetched at all: the store raises the error.
        return url
    if parts.scheme == "hf":
        return "the model hub"
    return parts.netloc.rpartition("@")[2]


def announcement(files: Iterable[RemoteFile], store: FileStore) -> str | None:
    """Return one line on what is to be fetched: how much, and under which terms; None if nothing.

    Parameters
    ----------
    files : iterable of RemoteFile
        The files needed.
    store : FileStore
        Keeps them.
    """
    lacking = store.missing(files)
    if not lacking:
        return None
    files_to_fetch = counted(len(lacking), "file")
    return f"{files_to_fetch} to fetch: {size_of(lacking)}; terms: {_terms(lacking)}"


def inventory(files: Iterable[RemoteFile], store: FileStore) -> pa.Table:
    """Return one row a file: its size, terms and state, and its path."""
    lacking = {file.url for file in store.missing(files)}
    rows = [
        {
            "file": file.name,
            "state": "to fetch" if file.url in lacking else "here",
            "bytes": file.bytes or file.about_bytes,
            "licence": file.licence,
            "sha256": file.sha256 or file.sha256_prefix,
            "url": file.url,
            "place": str(store.place(file)) if file.url in lacking else str(store.find(file)),
        }
        for file in files
    ]
    return table_of(rows, _INVENTORY)
