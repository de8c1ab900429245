"""The labels and tags of runs, which change while what was measured stays."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, delete, func, inspect, select

from catalog.home import Home
from catalog.registry.database import Database, portions
from catalog.registry.label_file import labels_by_run, labels_in_file
from catalog.registry.tables import RUN_LABELS, RUN_TAGS
from catalog.tags import LABELLED, RunLabels, Tags

#: A statement, and the rows that it is executed with.
_Write = tuple[Any, list[dict[str, Any]]]


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
            columns = (RUN_LABELS.c[name] for name in ("run_id", *LABELLED))
            labels = connection.execute(select(*columns)).all()
            columns = (RUN_TAGS.c[name] for name in ("run_id", "name", "value"))
            tags = connection.execute(select(*columns).order_by(RUN_TAGS.c.name)).all()
        return labels_by_run(
            ((row.run_id, row.model, row.checkpoint, row.dataset) for row in labels),
            ((tag.run_id, tag.name, tag.value) for tag in tags),
        )

    def set(self, labels: Mapping[str, RunLabels]) -> None:
        """Give runs labels and tags by hand, by run id; what is not among these stays as it is."""
        self._write(*self._given(labels, None))

    def declare(
        self, origin: str, labels: Mapping[str, RunLabels], by_hand: Collection[str] = ()
    ) -> None:
        """Give runs what a survey declares, and take away what it declared and no longer does.

        Parameters
        ----------
        origin : str
            The survey's file or schedule.
        labels : mapping of str to RunLabels
            All that it declares of these runs, by run id. What others gave them stays.
        by_hand : collection of str
            Names of tags that were given beside the declaration, and stay.
        """
        runs = [{"declared_run": run_id} for run_id in labels]
        old = [
            delete(table).where(
                table.c.run_id == bindparam("declared_run"), table.c.declared_by == origin
            )
            for table in (RUN_LABELS, RUN_TAGS)
        ]
        given = {run_id: _tags_among(each.tags, by_hand) for run_id, each in labels.items()}
        self._write(
            *((statement, runs) for statement in old),
            *self._given(labels, origin),
            *self._given(given, None),
        )

    def _given(self, labels: Mapping[str, RunLabels], origin: str | None) -> tuple[_Write, _Write]:
        """Return what writes labels and tags; one that is declared stays whose it was before."""
        declared: dict[str, Any] = {"declared_by": origin}
        anew = declared if origin is None else {}
        new, tag = self.database.insert(RUN_LABELS), self.database.insert(RUN_TAGS)
        kept = {part: func.coalesce(new.excluded[part], RUN_LABELS.c[part]) for part in LABELLED}
        value = {"value": tag.excluded.value}
        parts = {run_id: _parts(each) for run_id, each in labels.items()}
        label_rows = [
            {"run_id": run_id, **each, **declared}
            for run_id, each in parts.items()
            if any(each.values())
        ]
        tags = _tag_rows({run_id: each.tags for run_id, each in labels.items()})
        return (
            (new.on_conflict_do_update(index_elements=["run_id"], set_=kept | anew), label_rows),
            (
                tag.on_conflict_do_update(index_elements=["run_id", "name"], set_=value | anew),
                [row | declared for row in tags],
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

    def _write(self, *statements: _Write) -> None:
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


def _tags_among(tags: Tags, names: Collection[str]) -> RunLabels:
    return RunLabels(tags={name: value for name, value in tags.items() if name in names})


def _tag_rows(tags: Mapping[str, Tags]) -> list[dict[str, Any]]:
    return [
        {"run_id": run_id, "name": name, "value": value}
        for run_id, each in tags.items()
        for name, value in each.items()
    ]
