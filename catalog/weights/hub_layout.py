"""Folders as the model hub lays them out: which of their files hold the weights."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path, PurePosixPath

from catalog.bounds import read_json
from survey.errors import CheckpointError
from survey.text import first_names

#: Endings of files of weights.
ENDINGS = (".safetensors", ".bin", ".pth", ".pt", ".th", ".ckpt", ".tar")

#: How a file ends that lists in which shard each of a network's tensors lies.
INDEX_ENDING = ".index.json"

#: What libraries call the weights, safetensors first; an index stands for its shards.
_NAMES = tuple(
    f"{name}{index}"
    for name in ("model.safetensors", "pytorch_model.bin")
    for index in ("", INDEX_ENDING)
)

#: Bytes of the largest index that is read: some hundred thousand tensors.
_MOST_BYTES = 2**26


def weights_among(names: Collection[str], where: str) -> str:
    """Return which of a folder's files holds its weights, or is the index of their shards.

    Parameters
    ----------
    names : collection of str
        The names of the folder's files.
    where : str
        What the folder is called in an error.

    Raises
    ------
    CheckpointError
        If there is none, or there are several that no library would choose among.
    """
    for name in _NAMES:
        if name in names:
            return name
    for ending in ENDINGS:
        fitting = sorted(name for name in names if name.endswith(ending))
        if len(fitting) == 1:
            return fitting[0]
        if fitting:
            raise CheckpointError(
                f"{where} holds several files of weights: {first_names(fitting)}",
                hint=f"name one of them, such as {where.rstrip('/')}/{fitting[0]}",
            )
    raise CheckpointError(
        f"{where} holds no weights, must hold {', '.join(_NAMES)} or one file that ends in"
        f" {', '.join(ENDINGS)}",
        hint=f"it holds {first_names(sorted(names)) or 'no files'}",
    )


def shards_of(index: Path) -> list[str]:
    """Return the names of the files that an index lists, in alphabetical order.

    Raises
    ------
    CheckpointError
        If the index cannot be read, or names anything but files beside or below it.
    """
    try:
        listed = read_json(index, _MOST_BYTES)["weight_map"]
        names = sorted(set(dict(listed).values()))
        paths = [PurePosixPath(name) for name in names]
    except (OSError, ValueError, TypeError, KeyError) as problem:
        raise CheckpointError(
            f"{index} cannot be read as an index of shards: {type(problem).__name__}: {problem}",
            hint="it must be JSON with a weight_map from tensors to files: fetch it again",
        ) from None
    # An empty name is the folder itself; with NUL or half a character none can be opened.
    outside = [
        repr(name)
        for name, path in zip(names, paths, strict=True)
        if path.is_absolute() or ".." in path.parts or not path.name or not name.isprintable()
    ]
    if outside or not names:
        raise CheckpointError(
            f"{index} names {first_names(outside) or 'no files'}, must name files of its folder",
            hint="no library writes such an index: fetch it from its publisher",
        )
    return names
