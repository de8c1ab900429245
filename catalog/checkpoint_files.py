"""Files of weights on this machine that a reference names: by a path, a folder or a glob."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from itertools import takewhile
from pathlib import Path

from catalog.files import at_home
from catalog.weights.hub_layout import ENDINGS, INDEX_ENDING, shards_of, weights_among
from survey.errors import CheckpointError
from survey.text import counted

#: What references of files begin with.
FILE = "file:"
_DIGITS = re.compile(r"([0-9]+)")


def parted(reference: str, base_dir: Path) -> tuple[str, str | None]:
    """Return a reference to a file, and the part of it that is meant; None for the whole.

    Parameters
    ----------
    reference : str
        Any reference; ``file:moco.pth#module.encoder_q`` names a part, where no file has just that
        name.
    base_dir : Path
        Where a relative path starts from.
    """
    whole, _, part = reference.rpartition("#")
    if not (part and whole.startswith(FILE)) or "/" in part or glob.has_magic(part):
        return reference, None
    if (base_dir / at_home(reference.removeprefix(FILE))).exists():
        return reference, None
    return whole, part


def expanded(reference: str, base_dir: Path) -> list[str]:
    """Return the references that one stands for: itself, or those of the files a glob fits.

    Parameters
    ----------
    reference : str
        Any reference; ``file:exp/*/epoch_*.pth`` is a glob, where no file has just that name.
        ``**`` fits any number of folders.
    base_dir : Path
        Where a relative path starts from.

    Returns
    -------
    list of str
        At least one; numbers in names count as numbers, so that ``epoch_2`` is before ``epoch_10``.

    Raises
    ------
    CheckpointError
        If no file fits a glob.
    """
    whole, part = parted(reference, base_dir)
    # First as if all of it were a glob: names of files may hold the mark of a part.
    for written, ending in {reference: "", whole: f"#{part}" if part else ""}.items():
        pattern = str(at_home(written.removeprefix(FILE)))
        globbed = written.startswith(FILE) and glob.has_magic(pattern)
        if not globbed or (base_dir / pattern).exists():
            return [reference]
        files = [name for name in _fitting(pattern, base_dir) if _has_weights(base_dir / name)]
        if files:
            return [f"{FILE}{name}{ending}" for name in sorted(files, key=natural_order)]
    raise _nothing_fits(pattern, base_dir)


def _fitting(pattern: str, base_dir: Path) -> Iterator[str]:
    """Yield the paths that a glob fits, as it is written; hidden ones only where it names them."""
    anchor = Path(pattern).anchor
    root = Path(anchor) if anchor else base_dir
    hidden = any(part.startswith(".") and part != ".." for part in Path(pattern).parts)
    try:
        # It does not follow links for ``**``, among which it would go round for ever.
        for path in root.glob(pattern.removeprefix(anchor)):
            below = path.relative_to(root)
            if hidden or not any(p.startswith(".") and p != ".." for p in below.parts):
                yield str(path if anchor else below)
    except ValueError as error:
        raise CheckpointError(f"{FILE}{pattern} is no glob: {error}") from None


def files_of(path: Path) -> list[Path]:
    """Return the files of the weights at a path: itself, or those of a folder, in the hub's layout.

    A folder without weights is returned as it is, and fails when it is loaded.

    Raises
    ------
    CheckpointError
        If a folder holds several files of weights, or lacks one that its index names.
    """
    names = [each.name for each in path.iterdir()] if path.is_dir() else []
    if not any(name.endswith((*ENDINGS, INDEX_ENDING)) for name in names):
        return [path]
    weights = path / weights_among(names, str(path))
    if not weights.name.endswith(INDEX_ENDING):
        return [weights]
    files = [path / name for name in shards_of(weights)]
    # A name may be one that no file can have.
    if absent := next((file for file in files if not os.path.isfile(file)), None):  # noqa: PTH113
        raise CheckpointError(
            f"{absent} is not there, which {weights.name} names",
            hint="copy the whole folder: all shards are needed",
        )
    return files


def natural_order(name: str) -> list[str | int]:
    """Return what sorts names with the numbers in them as numbers."""
    # Text and numbers take turns, text first, so that like is compared with like.
    parts = _DIGITS.split(name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)]


def _has_weights(path: Path) -> bool:
    """Return whether a path is a file, or a folder of weights."""
    return path.is_file() or (path.is_dir() and files_of(path) != [path])


def _nothing_fits(pattern: str, base_dir: Path) -> CheckpointError:
    plain = takewhile(lambda part: not glob.has_magic(part), Path(pattern).parts)
    folder = base_dir.absolute().joinpath(*plain)
    if folder.is_dir():
        held = counted(sum(path.is_file() for path in folder.iterdir()), "file")
        hint = f"that folder holds {held} itself; ** fits any number of folders"
    else:
        hint = (
            "there is no such folder; a relative path starts where the command was called, or"
            " beside the survey file"
        )
    return CheckpointError(f"no file fits {FILE}{pattern} below {folder}", hint=hint)
