"""The runs of a selection, and the frames of what was measured of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from analysis.choices import Role
from analysis.data.described_frames import OF_RUNS, describe
from analysis.data.model_names import NAMES, names_of
from analysis.data.provenance import CONDITIONS
from analysis.data.random_weights import trained
from analysis.data.run_tags import with_labels
from analysis.data.selection import Selection
from analysis.data.validation import require_choice
from catalog.copied_home import query_copy
from catalog.open_home import open_home
from catalog.registry.labels import labels_of
from catalog.store.latest_runs import MEASURED
from catalog.store.reader import Parameters, query
from catalog.store.records import details_of
from catalog.store.schema import installed_columns, quoted_name
from catalog.store.views import GAPS, layer_scores, scores_that_count
from catalog.tags import RunLabels
from survey.errors import UnknownName

#: What a user gives runs.
_GIVEN = ("label", "tags")

_BESIDE_SITES = (*OF_RUNS, *NAMES, *_GIVEN)

_BESIDE_MEASURES = ("architecture", "source", "family", "checkpoint", "dataset", "pooling")

_READ = dict.fromkeys(
    (*OF_RUNS, "status", "finished_at", "measuring_version", *MEASURED, *CONDITIONS)
)

# The newest of repeats comes last: ``last_run_each`` keeps that one.
_RUNS = f"""
SELECT {", ".join(_READ)} FROM runs
ORDER BY architecture, source, checkpoint, dataset, pooling, finished_at NULLS FIRST, run_id
"""  # noqa: S608 - declared names

_CHOSEN = """
SELECT unnest($run_ids::VARCHAR[]) AS run_id,
  generate_subscripts($run_ids::VARCHAR[], 1) - 1 AS place
"""


class SelectedRuns:
    """Reads frames of the runs of a selection; which runs these are is read once.

    Parameters
    ----------
    home : str or pathlib.Path
        The home that holds them.
    selection : Selection, optional
        See ``signatures``.
    copied : bool
        Whether to read the copy of the home, as it was last brought up to date. It has what is
        computed of finished runs; scores of batches are read from the store all the same.
    among : SelectedRuns, optional
        Runs of the same globs, of which these are some: their names tell all of those apart.
    """

    def __init__(
        self,
        home: str | Path,
        selection: Selection | None = None,
        *,
        copied: bool = False,
        among: SelectedRuns | None = None,
    ) -> None:
        self._path, self._home = home, open_home(Path(home), create=False)
        self._selection, self._copied = selection or Selection(), copied
        self._among = among

    def models(self) -> pd.DataFrame:
        """Return one row a run; see ``models``."""
        table = self._rows("runs.*, place", "runs", "place")
        return self._described(table.to_pandas(), (*NAMES, *_GIVEN))

    def signatures(
        self,
        role: Role = "all",
        *,
        keep_flagged: bool = False,
        columns: Sequence[str] | None = None,
    ) -> pd.DataFrame:
        """Return one row a finished run and site; see ``signatures``.

        Parameters
        ----------
        role, keep_flagged
            See ``signatures``.
        columns : sequence of str, optional
            Which columns to read: all of thousands of runs take a gigabyte.

        Raises
        ------
        UnknownName
            If there is no such column.
        """
        require_choice("role", role, Role)
        of_runs, of_sites = _BESIDE_SITES, f"sites.* EXCLUDE ({', '.join(OF_RUNS)})"
        if columns is not None:
            there = self._read("FROM signatures LIMIT 0").column_names
            wanted = _known(columns, (*_BESIDE_SITES, *there))
            of_runs = tuple(each for each in _BESIDE_SITES if each in wanted)
            of_sites = ", ".join(quoted_name(each) for each in wanted if each not in of_runs)
        every = "signatures.*" if keep_flagged else scores_that_count()
        kept = "" if role == "all" else f" WHERE role = '{role}'"
        sites = f"(SELECT {every} FROM signatures{kept}) AS sites"  # noqa: S608 - declared names
        # Columns of runs are put beside sites that are in order: ordering them too takes long.
        names = ", ".join(filter(None, (of_sites, "place", "sites.site AS number")))
        frame = self._described(frame_of_sites(_in_order(self._rows(names, sites))), of_runs)
        if role != "all":
            frame.attrs["selection"] += f", {role} sites"
        return frame

    def layers(self, columns: Sequence[str] | None = None) -> pd.DataFrame:
        """Return one row a run, batch and site; see ``layers``."""
        known = [column.name for column in layer_scores(installed_columns()).columns]
        asked = known if columns is None else _known(columns, known)
        wanted = dict.fromkeys(("run_id", "batch", "site", *asked))
        names = ", ".join((*map(quoted_name, wanted), "place"))
        table = self._rows(names, "layer_scores", "place, batch, site", stored=True)
        has_files = {"checkpoint", "dataset"} <= wanted.keys()
        return self._described(table.to_pandas(), (*NAMES[: None if has_files else 1], *_GIVEN))

    def measures(self) -> pd.DataFrame:
        """Return one row a run and measure of its whole network; see ``measure_scores``."""
        order = "place, measure"
        frame = self._rows("network_scores.*, place", "network_scores", order).to_pandas()
        frame["details"] = frame["details"].map(details_of).astype("object")
        frame["value"] = frame["value"].astype("float64")
        return self._described(frame, (*_BESIDE_MEASURES, NAMES[0], *_GIVEN))

    def gaps(self) -> pd.DataFrame:
        """Return the sites without a score: see ``catalog.store.views.GAPS``."""
        source = "gaps" if self._copied else f"({GAPS}) AS gaps"
        order = "run_id, site, status"
        frame: pd.DataFrame = self._rows("gaps.*", source, order).to_pandas()
        return frame

    def _read(self, sql: str, parameters: Parameters | None = None) -> pa.Table:
        return (query_copy if self._copied else query)(self._home, sql, parameters)

    def _rows(
        self, columns: str, source: str, order: str = "", *, stored: bool = False
    ) -> pa.Table:
        """Return columns of the selected runs from a table, a view or a statement."""
        sql = f"SELECT {columns} FROM {source} JOIN ({_CHOSEN}) USING (run_id)"  # noqa: S608
        sql += f" ORDER BY {order}" if order else ""
        ids = {"run_ids": self._ids}
        return query(self._home, sql, ids) if stored else self._read(sql, ids)

    @cached_property
    def _fitting(self) -> pa.Table:
        """The runs that fit every glob; see ``_READ``."""
        if self._among is not None:
            return self._among._fitting
        read = self._read(_RUNS)
        if not self._selection.filters:
            return read
        fitting = self._selection.fitting(with_labels(read.to_pylist(), self._labels))
        return read.filter(pc.is_in(read["run_id"], pa.array([run["run_id"] for run in fitting])))

    @cached_property
    def _labels(self) -> Mapping[str, RunLabels]:
        return labels_of(self._home)

    @cached_property
    def _chosen(self) -> pa.Table:
        return self._selection.choose(self._fitting)

    @cached_property
    def _ids(self) -> list[str]:
        ids: list[str] = self._chosen["run_id"].to_pylist()
        return ids

    @cached_property
    def _named(self) -> pa.Table:
        """The chosen runs, with the names that people read."""
        table = self._chosen
        for column, names in self._names.items():
            table = table.append_column(column, pa.array(map(names.__getitem__, self._ids)))
        return table

    @cached_property
    def _names(self) -> Mapping[str, Mapping[str, str]]:
        if self._among is None:
            return names_of(self._named_by)
        if set(self._ids) <= set(self._among._ids):
            return self._among._names
        return names_of((*self._among._named_by, *self._named_by))

    @property
    def _named_by(self) -> list[dict[str, Any]]:
        """The chosen runs, with what they are named by."""
        rows: list[dict[str, Any]] = self._chosen.select(("run_id", *MEASURED)).to_pylist()
        for run in rows:
            if given := self._labels.get(run["run_id"]):
                run["label"] = given.label
        return rows

    @cached_property
    def _caption(self) -> str:
        passed_over = self._selection.passed_over(self._fitting)
        return ", ".join(filter(None, (self._selection.describe(), passed_over)))

    @cached_property
    def _untrained(self) -> dict[str, Any]:
        """Return what frames say of random weights."""
        if left_out := self._selection.untrained_left_out(self._fitting):
            return {"untrained_left_out": left_out}
        alone = self._ids and not trained(self._chosen["checkpoint"].to_pandas()).any()
        return {"untrained_alone": True} if alone else {}

    def _described(self, frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
        """Return rows, which end with the places of their runs, with columns of these."""
        places = frame.pop("place").to_numpy()
        # Where no run that is shown lacks a whole number, it stays one.
        shown = np.bincount(places, minlength=len(self._named)) > 0
        runs = self._named.filter(shown).to_pandas()
        if {*_GIVEN}.intersection(columns):
            given = [self._labels.get(run) for run in compress(self._ids, shown)]
            runs["label"] = pd.Series([each and each.label for each in given], dtype="object")
            tags = [dict(each.tags) if each else {} for each in given]
            runs["tags"] = pd.Series(tags, dtype="object")
        describe(frame, runs, (np.cumsum(shown) - 1)[places], columns, self._caption)
        frame.attrs |= {"home": str(self._path)} | self._untrained
        return frame


def _known(columns: Iterable[str], known: Sequence[str]) -> list[str]:
    """Return some columns of those that there are."""
    wanted = list(columns)
    for name in wanted:
        if name not in known:
            raise UnknownName("column", name, known)
    return wanted


def _in_order(table: pa.Table) -> pa.Table:
    """Return sites in the order of their runs' places; the last column has their numbers."""
    # Sorted by DuckDB, the rows of thousands of runs take twice as long to read.
    places, numbers = (column.to_numpy() for column in table.columns[-2:])
    order = np.argsort(places * (numbers.max(initial=0) + 1) + numbers, kind="stable")
    return table.select(table.column_names[:-1]).combine_chunks().take(pa.array(order))


def frame_of_sites(table: pa.Table) -> pd.DataFrame:
    """Return rows of ``signatures`` as a frame, with flags as tuples."""
    names = table.column_names
    others = [each for each in names if each != "flags"]
    frame: pd.DataFrame = table.select(others).to_pandas(split_blocks=True)
    if len(others) < len(names):
        # Of many sites few have flags, and few different ones; no flag has a blank in it.
        flags = pc.binary_join(table["flags"], " ").combine_chunks().dictionary_encode()
        each = pd.Series([tuple(text.split()) for text in flags.dictionary.to_pylist()])
        tuples = each.astype("object").take(flags.indices.to_numpy())
        frame.insert(names.index("flags"), "flags", tuples.set_axis(frame.index))
    return frame
