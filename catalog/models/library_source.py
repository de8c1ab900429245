"""Sources whose models are an installed library's, with their facts kept on disk.

To import such a library takes seconds. What it says of its models depends on its version alone, so
that it is asked once for each: a name is resolved, listed or refused without the library, which is
imported when a network is built.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import json
import time
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from platformdirs import user_cache_path

from catalog.files import keep_in_cache
from catalog.models.base import (
    Architecture,
    InputTransform,
    KeyRules,
    ModelSource,
    Published,
    RemoteFile,
    Reported,
)

if TYPE_CHECKING:
    from torch import nn

#: How long the facts of other versions are kept.
KEPT_SECONDS = 90 * 86400

#: Facts of one model, and the arguments that build it; None where there is no builder.
Entry = tuple[dict[str, Any], Sequence[Any] | None]


class LibrarySource(ModelSource):
    """A source that reads an installed library, whose name it has."""

    @abstractmethod
    def read(self) -> tuple[Iterable[Architecture], Iterable[Published]]:
        """Return everything the library has; imports it.

        A ``build`` is a ``functools.partial`` of ``build_network`` with plain values.
        """

    @staticmethod
    @abstractmethod
    def build_network(*arguments: Any) -> nn.Module:
        """Build a network with its ordinary random initialisation."""

    def names(self) -> list[str]:
        """Return every architecture's name, sorted."""
        return sorted(self._kept["architectures"])

    def get(self, name: str) -> Architecture:
        """Return one architecture; raise UnknownName for a name not in the library."""
        entry = self._kept["architectures"].get(name)
        if entry is None:
            return super().get(name)
        facts, arguments = entry
        transform, build = _transform(facts["transform"]), self._builder(arguments)
        # A number of outputs is the last argument of every library's builder.
        return Architecture(**facts | {"transform": transform}, build=build, build_with=build)

    def published(self) -> list[Published]:
        """Return all weights that the library publishes, sorted by name."""
        entries = sorted(self._kept["published"].items())
        return [self._published(*entry) for _, entry in entries]

    def _published(self, facts: Mapping[str, Any], arguments: Sequence[Any] | None) -> Published:
        nested = {
            "transform": _transform(facts["transform"]),
            "file": RemoteFile(**facts["file"]) if facts["file"] else None,
            "rules": _rules(facts["rules"]),
            "reported": tuple(Reported(**each) for each in facts["reported"]),
        }
        return Published(**{**facts, **nested}, build=self._builder(arguments))

    def _builder(self, arguments: Sequence[Any] | None) -> Any:
        return None if arguments is None else functools.partial(self.build_network, *arguments)

    @functools.cached_property
    def _kept(self) -> Mapping[str, Mapping[str, Entry]]:
        path = user_cache_path("model-zoo-survey") / f"{self.name}-{_key(self.name)}.json"
        try:
            kept: dict[str, dict[str, Entry]] = json.loads(path.read_bytes())
        except (OSError, ValueError):
            # Not there, or damaged: the library is asked, and the next call is quick.
            architectures, published = self.read()
            kept = {"architectures": _entries(architectures), "published": _entries(published)}
            keep_in_cache(path, lambda partial: partial.write_text(json.dumps(kept)))
            _remove_old(path)
        return kept


def _entries(models: Iterable[Architecture] | Iterable[Published]) -> dict[str, Entry]:
    return {each.name: _entry(each) for each in models}


def _entry(model: Architecture | Published) -> Entry:
    facts = dataclasses.asdict(model)
    # A builder cannot be written down; its arguments can.
    facts.pop("build_with", None)
    build = facts.pop("build")
    return facts, build.args if isinstance(build, functools.partial) else None


def _transform(facts: Mapping[str, Any]) -> InputTransform:
    return InputTransform(**{**facts, "mean": tuple(facts["mean"]), "std": tuple(facts["std"])})


def _rules(facts: Mapping[str, Any]) -> KeyRules:
    plural = {name: tuple(facts[name]) for name in ("container", "drop", "moved")}
    alternatives = tuple(map(_rules, facts["alternatives"]))
    return KeyRules(**{**facts, **plural, "alternatives": alternatives})


def _key(library: str) -> str:
    """Return a hash of the library's version and of our own tables and modules that read it."""
    digest = hashlib.sha256(version(library).encode())
    digest.update(tables_sha256().encode())
    return digest.hexdigest()[:16]


@functools.cache
def tables_sha256() -> str:
    """Return a hash of the tables and modules of this package."""
    digest = hashlib.sha256()
    here = files("catalog.models")
    for folder in (here, here / "tables"):
        for table in sorted(folder.iterdir(), key=lambda entry: entry.name):
            if table.name.endswith((".csv", ".py")):
                digest.update(table.read_bytes())
    return digest.hexdigest()


def _remove_old(path: Path) -> None:
    """Remove the facts of other versions, unless another environment may still use them."""
    with suppress(OSError):
        for other in path.parent.glob(f"{path.name.partition('-')[0]}-*.json"):
            if other.stat().st_mtime < time.time() - KEPT_SECONDS:
                other.unlink(missing_ok=True)
