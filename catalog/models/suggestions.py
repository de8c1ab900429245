"""What may be meant by a name, a glob or a set that fits nothing.

Owns what is suggested for names of the form ``source:name``, of which there are too many to list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from difflib import get_close_matches

from catalog.models.sets import SETS
from survey.errors import UnknownName

_GLOB = re.compile(r"[*?\[]")

#: Where a glob may sensibly end: after a word of a name.
_WORD_END = re.compile(r"(?<=\w)(?=[_./:])|$")

#: How alike a name must be to be suggested, from 0 to 1.
_CLOSE = 0.5

#: Names that are suggested at most.
_MOST = 3


def unknown_pattern(kind: str, pattern: str, full_names: Iterable[str]) -> UnknownName:
    """Return the error for a pattern that fits nothing, with patterns that fit something.

    Parameters
    ----------
    kind : str
        What was looked up, such as ``architecture``.
    pattern : str
        A name or glob, with or without its source.
    full_names : iterable of str
        Every name that exists, each with its source.
    """
    known = set(full_names)
    error = UnknownName(kind, pattern, ())
    error.hint = _as_source(pattern, known) or _as_tag(pattern, known) or _close(pattern, known)
    return error


def _as_source(pattern: str, known: Iterable[str]) -> str | None:
    source = pattern.rstrip(":")
    sources = {name.partition(":")[0] for name in known}
    return f"for all of them write '{source}:*'" if source in sources else None


def _as_tag(pattern: str, known: Iterable[str]) -> str | None:
    """Return the hint where a tag alone, such as ``IMAGENET1K_V2``, is the end of names."""
    marks = [mark for mark in "/." if any(name.endswith(f"{mark}{pattern}") for name in known)]
    return f"for all that end so write '*{marks[0]}{pattern}'" if pattern and marks else None


def _close(pattern: str, known: set[str]) -> str:
    with_source = ":" in pattern
    names = known if with_source else {name.partition(":")[2] for name in known} | set(SETS)
    stem = _GLOB.split(pattern)[0]
    if stem == pattern:
        # First those that it is the end of: resnet20 of cifar_resnet20.
        ends = sorted(name for name in names if name.endswith(f"_{pattern}"))
        close = [*ends, *get_close_matches(pattern, sorted(names), cutoff=_CLOSE)]
        close = list(dict.fromkeys(close))[:_MOST]
    else:
        # A glob is answered with globs: the names, up to the end of one of their words.
        heads = {name[: end.start()] for name in names for end in _WORD_END.finditer(name)}
        close = [
            # A head without a colon may be a whole source's.
            f"{head}:*" if with_source and ":" not in head else f"{head}*"
            for head in get_close_matches(stem.rstrip("_./:"), sorted(heads), cutoff=_CLOSE)
        ]
    # A few of thousands of names, in the order of the alphabet, would help nobody.
    suggested = f"did you mean {' or '.join(close)}?"
    return suggested if close else "list what there is: survey models, survey checkpoints"
