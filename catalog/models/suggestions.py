"""What may be meant by a name, a glob or a set that fits nothing.

Owns what is suggested for names of the form ``source:name``; ``survey.errors.UnknownName`` lists
the close ones.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from catalog.models.sets import SETS
from survey.errors import UnknownName

_GLOB = re.compile(r"[*?\[]")

#: Where a glob may sensibly end: after a word of a name.
_WORD_END = re.compile(r"(?<=\w)(?=[_./:])|$")


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
    hint = _as_source(pattern, known) or _as_tag(pattern, known) or _close(kind, pattern, known)
    error = UnknownName(kind, pattern, ())
    error.hint = hint
    return error


def _as_source(pattern: str, known: Iterable[str]) -> str | None:
    source = pattern.rstrip(":")
    sources = {name.partition(":")[0] for name in known}
    return f"for all of them write '{source}:*'" if source in sources else None


def _as_tag(pattern: str, known: Iterable[str]) -> str | None:
    """Return the hint where a tag alone, such as ``IMAGENET1K_V2``, is the end of names."""
    marks = [mark for mark in "/." if any(name.endswith(f"{mark}{pattern}") for name in known)]
    return f"for all that end so write '*{marks[0]}{pattern}'" if pattern and marks else None


def _close(kind: str, pattern: str, known: set[str]) -> str:
    names = known if ":" in pattern else {name.partition(":")[2] for name in known} | set(SETS)
    stem = _GLOB.split(pattern)[0]
    if stem == pattern:
        hint = UnknownName(kind, pattern, names).hint
    else:
        # A glob is answered with globs: the names, up to the end of one of their words.
        heads = {name[: end.start()] for name in names for end in _WORD_END.finditer(name)}
        hint = _as_globs(UnknownName(kind, stem.rstrip("_./:"), heads).hint, ":" in pattern)
    # A few of thousands of names, in the order of the alphabet, would help nobody.
    none_close = hint is None or hint.startswith("known:")
    return "list what there is: survey models, survey checkpoints" if none_close else str(hint)


def _as_globs(hint: str | None, sourced: bool) -> str | None:
    if hint is None or hint.startswith("known:"):
        return None
    heads = hint.removeprefix("did you mean ").removesuffix("?").split(" or ")
    # A head without a colon may be a whole source's.
    globs = [f"{head}:*" if sourced and ":" not in head else f"{head}*" for head in heads]
    return f"did you mean {' or '.join(globs)}?"
