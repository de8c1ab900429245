"""The labels and tags in a registry's file, read without the library that writes them.

A query of the store shows them, and that library takes longer to import than most queries.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable
from contextlib import closing

from catalog.bounds import parse_json
from catalog.home import REPAIR_HINT, Home
from catalog.registry.address import reading_address
from catalog.tags import RunLabels, TagValue, checked_tags
from survey.errors import SettingsError, StoreError

# Casts: in a damaged file a value may be of any type.
_LABELS = """
SELECT CAST(run_id AS TEXT), CAST(model AS TEXT), CAST(checkpoint AS TEXT), CAST(dataset AS TEXT)
FROM run_labels
"""
_TAGS = "SELECT CAST(run_id AS TEXT), CAST(name AS TEXT), value FROM run_tags ORDER BY name"


def labels_in_file(home: Home) -> dict[str, RunLabels]:
    """Return the labels and tags of every run that has any, by run id.

    A home without a registry, and a registry that an older program made, have none.

    Raises
    ------
    StoreError
        If the registry is damaged.
    """
    if not home.registry.is_file():
        return {}
    try:
        place = reading_address(home.registry)
        with closing(sqlite3.connect(place, uri=True)) as connection:
            tables = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'run_tags'")
            if tables.fetchone() is None:
                return {}
            labels, tags = connection.execute(_LABELS), connection.execute(_TAGS)
            return labels_by_run(labels, (_tag(*row) for row in tags))
    # SQLite takes some damage for a lack of memory.
    except (sqlite3.Error, ValueError, TypeError, SettingsError, MemoryError) as error:
        what = str(error) or "it is damaged"
        raise StoreError(
            f"the labels in {home.registry} cannot be read: {what}", hint=REPAIR_HINT
        ) from error


def _tag(run_id: str, name: str, stored: TagValue) -> tuple[str, str, TagValue]:
    # SQLite keeps what looks like a number as one, whatever wrote it as JSON.
    value = parse_json(stored) if isinstance(stored, str) else stored
    return run_id, name, checked_tags({name: value})[name]


def labels_by_run(
    labels: Iterable[tuple[str, str | None, str | None, str | None]],
    tags: Iterable[tuple[str, str, TagValue]],
) -> dict[str, RunLabels]:
    """Return labels and tags by run id.

    Parameters
    ----------
    labels : iterable of tuple
        A run's id, and the labels of its architecture, its checkpoint and its dataset.
    tags : iterable of tuple
        A run's id, a tag's name and its value.
    """
    tagged: defaultdict[str, dict[str, TagValue]] = defaultdict(dict)
    for run_id, name, value in tags:
        tagged[run_id][name] = value
    labelled = {run_id: parts for run_id, *parts in labels}
    return {
        run_id: RunLabels(model, checkpoint, dataset, tagged.get(run_id, {}))
        for run_id in sorted({*labelled, *tagged})
        for model, checkpoint, dataset in (labelled.get(run_id, [None] * 3),)
    }
