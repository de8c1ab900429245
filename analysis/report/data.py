"""What a report is made from: the frames of a home, read once, and what several pages share.

Owns the addresses of the models' pages and the SQL that leads from a page back to the store.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis.contrasts.checkpoints import CRITERIA
from analysis.data.frames import layers, models, signatures
from analysis.data.provenance import Provenance, provenance_of
from analysis.data.selection import Selection
from catalog.open_home import open_home
from catalog.store.reader import query

if TYPE_CHECKING:
    from analysis.similarity.distances import DistanceMatrix

_GAPS = """
SELECT run_id, site, any_value(site_name) AS site_name, failures.status AS status, reason,
  count(*) AS batches
FROM failures JOIN (SELECT unnest($run_ids::VARCHAR[]) AS run_id) USING (run_id)
WHERE site IS NOT NULL GROUP BY run_id, site, failures.status, reason ORDER BY run_id, site, status
"""


class Material:
    """The frames a report is made from.

    Parameters
    ----------
    home : str or pathlib.Path
        The home that holds them.
    selection : Selection, optional
        Which runs.

    Raises
    ------
    SettingsError
        If there is no home, or a glob of the selection fits nothing.
    """

    def __init__(self, home: str | Path, selection: Selection | None = None) -> None:
        self.home = home
        self.selection = selection or Selection()
        #: One row a run, those that failed and those without a score included.
        self.models = models(home, self.selection)
        #: One row a finished run and site.
        self.signatures = signatures(home, self.selection)

    @cached_property
    def layers(self) -> pd.DataFrame:
        """One row a run, batch and site, with what the paper prints numbers of."""
        return layers(self.home, self.selection, columns=CRITERIA)

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """Sites without a score: ``run_id, site, site_name, status, reason, batches, model``."""
        opened = open_home(Path(self.home), create=False)
        table = query(opened, _GAPS, {"run_ids": list(self.models["run_id"])})
        frame: pd.DataFrame = table.to_pandas()
        return frame.merge(self.models[["run_id", "model"]], on="run_id", how="left")

    @cached_property
    def matrix(self) -> DistanceMatrix:
        """Distances between the signatures at equal relative depths."""
        from analysis.similarity.distances import distance_matrix

        return distance_matrix(self.signatures, normalisation="relative")

    @cached_property
    def scored(self) -> list[str]:
        """The ids of runs with at least one affinity score."""
        rows = self.signatures[self.signatures["affinity"].notna()]
        return list(dict.fromkeys(rows["run_id"]))

    @cached_property
    def measured(self) -> pd.DataFrame:
        """Those rows of ``signatures`` whose run has at least one affinity score."""
        return self.signatures[self.signatures["run_id"].isin(self.scored)]

    @cached_property
    def provenance_of_scored(self) -> Provenance:
        """What is made of the runs with a score was made from."""
        return provenance_of(self.measured)

    @property
    def done(self) -> pd.DataFrame:
        """The runs that finished."""
        return self.models[self.models["status"] == "done"]

    @property
    def failed(self) -> pd.DataFrame:
        """The runs that failed."""
        return self.models[self.models["status"] == "failed"]

    @cached_property
    def provenance(self) -> Provenance:
        """What the whole report was made from."""
        return provenance_of(self.models)

    @cached_property
    def pages(self) -> dict[str, str]:
        """The address of each run's page, by run id."""
        rows = zip(self.models["run_id"], self.models["model"], strict=True)
        return {run: f"models/{slug(model)}-{slug(run)}.html" for run, model in rows}

    @cached_property
    def pages_by_model(self) -> dict[str, str]:
        """The address of each run's page, by its label."""
        rows = zip(self.models["run_id"], self.models["model"], strict=True)
        return {model: self.pages[run] for run, model in rows}


def slug(text: str) -> str:
    """Return a text as part of a file's name anywhere: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")[:60].strip("-") or "run"


def sites_sql(run_ids: Iterable[str], columns: Sequence[str]) -> str:
    """Return the statement that gives these columns of these runs' sites."""
    return _statement(
        f"SELECT {', '.join(columns)}\nFROM signatures", run_ids, "architecture, run_id, site"
    )


def runs_sql(run_ids: Iterable[str], columns: Sequence[str] = ("*",)) -> str:
    """Return the statement that gives these columns of these runs."""
    return _statement(f"SELECT {', '.join(columns)}\nFROM runs", run_ids, "architecture, run_id")


def _statement(head: str, run_ids: Iterable[str], order: str) -> str:
    quoted = ["'" + run_id.replace("'", "''") + "'" for run_id in run_ids]
    lines = [", ".join(quoted[start : start + 6]) for start in range(0, len(quoted), 6)]
    inside = ",\n  ".join(lines) or "''"
    return f"{head}\nWHERE run_id IN (\n  {inside})\nORDER BY {order}\n"
