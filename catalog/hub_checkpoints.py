"""Checkpoints on the model hub: ``hf://OWNER/REPOSITORY[@REVISION][/FILE]``, and their files.

A repository's listing is a file that is fetched and kept like any other; it says what else to
fetch, and at which commit, so that all files of one checkpoint are of one version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Annotated, Any

import pydantic
from pydantic import Field

from catalog.bounds import open_file, read_at_most
from catalog.downloads.urls import HUB, LISTING, hub_file
from catalog.models.base import RemoteFile
from catalog.weights.hub_layout import ENDINGS, INDEX_ENDING, shards_of, weights_among
from survey.errors import CheckpointError, DownloadError
from survey.text import first_names, shortened

#: Bytes of the largest listing that is read.
_MOST_BYTES = 2**26

#: Returns where a file lies that was fetched; None where it is not here.
Find = Callable[[RemoteFile], Path | None]


class _Part(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(strict=True)


class _Large(_Part):
    sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")] | None = None


class _Sibling(_Part):
    rfilename: str
    size: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    lfs: _Large | None = None


class _Listing(_Part):
    """What is read of a repository's listing."""

    sha: Annotated[str, Field(pattern="^[0-9a-f]{40,64}$")]
    siblings: list[_Sibling]
    tags: list[str] | None = None


@dataclass(frozen=True, slots=True)
class HubFiles:
    """Files of a checkpoint on the hub, as far as they are known."""

    #: Those to fetch, in the order of their names.
    files: tuple[RemoteFile, ...]
    #: Whether they are the weights; else they say what the weights are, once they are here.
    complete: bool


def hub_reference(reference: str) -> str:
    """Return a reference to the hub in its one form, checked; ``hf:`` alone may begin it too.

    Raises
    ------
    CheckpointError
        If it names no repository.
    """
    written = HUB + reference.removeprefix("hf:").strip("/")
    repository, path = _parted(written)
    try:
        hub_file(f"{repository}/{path or LISTING}")
    except DownloadError:
        raise CheckpointError(
            f"checkpoint {shortened(repr(reference))} names nothing on the model hub, must be"
            " hf://OWNER/REPOSITORY, with @REVISION and /FILE if wanted",
            hint="such as hf://timm/resnet18.a1_in1k; in a revision write / as %2F",
        ) from None
    return written


def hub_files(reference: str, find: Find) -> HubFiles:
    """Return the files that a reference to the hub means; asks no network.

    Parameters
    ----------
    reference : str
        In its one form.
    find : callable
        Returns where a fetched file lies.

    Raises
    ------
    CheckpointError
        If a listing or an index is here, and names no weights.
    """
    repository, path = _parted(reference)
    if path.endswith(ENDINGS):
        return HubFiles((_remote(f"{repository}/{path}"),), complete=True)
    name = PurePosixPath(repository).name
    listing = RemoteFile(url=f"{repository}/{LISTING}", name=f"{name}.json")
    if (kept := find(listing)) is None:
        return HubFiles((listing,), complete=False)
    known = _listed(kept, repository)
    folder = f"{path}/" if path and path not in known else ""
    weights = path
    if path not in known:
        inside = [each.removeprefix(folder) for each in known if each.startswith(folder)]
        beside = [each for each in inside if "/" not in each]
        weights = folder + weights_among(beside, reference)
    if not weights.endswith(INDEX_ENDING):
        return HubFiles((known[weights],), complete=True)
    if (index := find(known[weights])) is None:
        return HubFiles((known[weights],), complete=False)
    beside_index = weights.rpartition("/")[0]
    names = [f"{beside_index}/{shard}".lstrip("/") for shard in shards_of(index)]
    if absent := [shard for shard in names if shard not in known]:
        raise CheckpointError(
            f"{reference} lacks {first_names(absent)}, which {shortened(weights)} names"
        )
    return HubFiles(tuple(known[shard] for shard in names), complete=True)


def _parted(reference: str) -> tuple[str, str]:
    """Return the address of a repository with its revision, and the path within it."""
    owner, _, rest = reference.removeprefix(HUB).partition("/")
    name, _, path = rest.partition("/")
    return f"{HUB}{owner}/{name}", path


def _remote(url: str, **known: Any) -> RemoteFile:
    return RemoteFile(url=url, name=url.rpartition("/")[2], **known)


def _listed(path: Path, repository: str) -> dict[str, RemoteFile]:
    """Return the files of a repository by their paths, at the commit of its listing."""
    try:
        with open_file(path) as file:
            listing = _Listing.model_validate_json(read_at_most(file, _MOST_BYTES, repository))
    # What pydantic raises is a ValueError.
    except ValueError as problem:
        raise CheckpointError(
            f"the listing of {repository} cannot be read: {type(problem).__name__}:"
            f" {shortened(str(problem), 400)}",
            hint=f"remove {path} and fetch it again",
        ) from None
    address = f"{repository.partition('@')[0]}@{listing.sha}"
    tags = listing.tags or ()
    licences = [tag.removeprefix("license:") for tag in tags if tag.startswith("license:")]
    return {
        each.rfilename: _remote(
            f"{address}/{each.rfilename}",
            bytes=each.size,
            sha256=each.lfs.sha256 if each.lfs else None,
            licence=licences[0] if licences else None,
        )
        for each in listing.siblings
    }
