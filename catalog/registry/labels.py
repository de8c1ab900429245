"""The labels and tags of runs, which change while what was measured stays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import delete, func, inspect

from catalog.home import Home
from catalog.registry.database import Database, portions
from catalog.registry.label_file import labels_by_run, labels_in_file
from catalog.registry.rows import RunLabel, RunTag
from catalog.registry.tables import RUN_LABELS, RUN_TAGS
from catalog.tags import LABELLED, RunLabels, Tags


@dataclass(frozen=True, slots=True)
class Labels:
    """The labels and tags that a registry keeps."""

    #: The registry's.
    database: Database

    def all(self) -> dict[str, RunLabels]:
        """Return the labels and tags of every run that has any, by run id.

        A registry that an older program made, and that no newer one wrote to yet, has none.
        """
        with self.database.transaction() as connection:
            if not inspect(connection).has_table(RUN_TAGS.name):
                return {}
        tags = self.database.rows(RunTag, RUN_TAGS, order=[RUN_TAGS.c.name])
        labels = self.database.rows(RunLabel, RUN_LABELS, order=[])
        return labels_by_run(
            ((row.run_id, row.model, row.checkpoint, row.dataset) for row in labels),
            ((tag.run_id, tag.name, tag.value) for tag in tags),
        )

    def set(self, labels: Mapping[str, RunLabels]) -> None:
        """Give runs labels and tags, by run id; what is not among these stays as it is."""
        parts = {run_id: _parts(each) for run_id, each in labels.items()}
        new, tag = self.database.insert(RUN_LABELS), self.database.insert(RUN_TAGS)
        kept = {part: func.coalesce(new.excluded[part], RUN_LABELS.c[part]) for part in LABELLED}
        value = {"value": tag.excluded.value}
        self._write(
            (
                new.on_conflict_do_update(index_elements=["run_id"], set_=kept),
                [
                    {"run_id": run_id, **each}
                    for run_id, each in parts.items()
                    if any(each.values())
                ],
            ),
            (
                tag.on_conflict_do_update(index_elements=["run_id", "name"], set_=value),
                _tag_rows({run_id: each.tags for run_id, each in labels.items()}),
            ),
        )

    def add_tags(self, tags: Mapping[str, Tags]) -> None:
        """Give runs tags, by run id, where they have none of that name yet."""
        self._write((self.database.insert(RUN_TAGS).on_conflict_do_nothing(), _tag_rows(tags)))

    def remove_tags(self, run_ids: Collection[str], names: Collection[str]) -> None:
        """Take tags of these names away from runs."""
        with self.database.transaction() as connection:
            for portion in portions(run_ids):
                chosen = RUN_TAGS.c.run_id.in_(portion), RUN_TAGS.c.name.in_(names)
                connection.execute(delete(RUN_TAGS).where(*chosen))

    def remove_labels(self, run_ids: Collection[str]) -> None:
        """Take every label away from runs."""
        with self.database.transaction() as connection:
            for portion in portions(run_ids):
                connection.execute(delete(RUN_LABELS).where(RUN_LABELS.c.run_id.in_(portion)))

    def _write(self, *statements: tuple[Any, list[dict[str, Any]]]) -> None:
        """Execute statements with the rows of each, all of them or none."""
        with self.database.transaction() as connection:
            for statement, rows in statements:
                for portion in portions(rows):
                    connection.execute(statement, portion)


def labels_of(home: Home) -> dict[str, RunLabels]:
    """Return the labels and tags of every run of a home that has any, by run id.

    A home whose registry is gone has none: what was measured can be read without.

    Raises
    ------
    StoreError
        If the registry is damaged.
    """
    if home.registry_url is None:
        return labels_in_file(home)
    database = Database(home)
    try:
        return Labels(database).all()
    finally:
        database.close()


def _parts(labels: RunLabels) -> dict[str, str | None]:
    return {part: getattr(labels, part) for part in LABELLED}


def _tag_rows(tags: Mapping[str, Tags]) -> list[dict[str, Any]]:
    return [
        {"run_id": run_id, "name": name, "value": value}
        for run_id, each in tags.items()
        for name, value in each.items()
    ]
