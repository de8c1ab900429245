"""The data that pages of a report share: gaps, the addresses of models' pages, and SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import pandas as pd

from analysis.answers.columns import Table
from analysis.answers.material import Material
from analysis.data.model_names import trained
from analysis.data.provenance import Provenance, provenance_of
from analysis.report.elements import PageTable, page_table
from analysis.text import missing
from catalog.open_home import open_home
from catalog.store.reader import query
from catalog.store.schema import quoted_name, quoted_text
from catalog.store.views import GAPS

#: Columns that hold the label of a model.
_MODELS = ("model", "other_model", "nearest_model", "residual", "plain", "name")

_GAPS = f"""
SELECT gaps.* FROM ({GAPS}) AS gaps
  JOIN (SELECT unnest($run_ids::VARCHAR[]) AS run_id) USING (run_id) ORDER BY run_id, site, status
"""  # noqa: S608 - declared names


class ReportMaterial(Material):
    """The frames of a report, and the addresses of its models' pages.

    Every run has a page; those of random weights have no part in an answer unasked.
    """

    #: Rows that a table about any number of runs has at most; None for all of them.
    most_rows: ClassVar[int | None] = None

    @cached_property
    def models(self) -> pd.DataFrame:
        """One row a run, those of random weights included."""
        takes_all = self.selection.takes_untrained
        return super().models if takes_all else self.with_untrained.models

    @cached_property
    def signatures(self) -> pd.DataFrame:
        """One row a run and site, of those that answers are about; labelled as all are."""
        frame = super().signatures
        labels = self.models.set_index("run_id")["model"]
        frame["model"] = frame["run_id"].map(labels).astype("str")
        return frame

    @property
    def every_signature(self) -> pd.DataFrame:
        """One row a run and site, those of random weights included."""
        # Without any, the rows are not read again: they take a minute of thousands of runs.
        every = trained(self.models["checkpoint"]).all()
        return self.signatures if every else self.with_untrained.signatures

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """Sites without a score: ``run_id, site, site_name, status, reason, batches, model``."""
        opened = open_home(Path(self.home), create=False)
        table = query(opened, _GAPS, {"run_ids": list(self.models["run_id"])})
        frame: pd.DataFrame = table.to_pandas()
        return frame.merge(self.models[["run_id", "model"]], on="run_id", how="left")

    @property
    def failed(self) -> pd.DataFrame:
        """The runs that failed."""
        return self.models[self.models["status"] == "failed"]

    @cached_property
    def provenance(self) -> Provenance:
        """The provenance of the whole report."""
        return provenance_of(self.models)

    @cached_property
    def pages(self) -> dict[str, str]:
        """The address of each run's page, by run id."""
        rows = zip(self.models["run_id"], self.models["model"], strict=True)
        return {run: f"models/{slug(model)}-{slug(run)}.html" for run, model in rows}

    @cached_property
    def links(self) -> dict[str, dict[str, str]]:
        """The addresses that cells of a table link to, by column and value."""
        addresses = self.models["run_id"].map(self.pages)
        by_model = dict(zip(self.models["model"], addresses, strict=True))
        return {"run_id": self.pages, **dict.fromkeys(_MODELS, by_model)}

    def table(self, table: Table) -> PageTable:
        """Return a table about any number of runs, with links to their pages."""
        return page_table(table, self.links, self.most_rows)


def libraries(run: Mapping[Any, Any]) -> str:
    """Return the versions of the libraries a run was measured with; empty where not known."""
    names = ("python", "torch", "torchvision", "numpy", "scipy")
    versions = {name: run[f"{name}_version"] for name in names}
    return ", ".join(f"{name} {each}" for name, each in versions.items() if not missing(each))


def slug(text: str) -> str:
    """Return a text as part of a file's name anywhere: lower-case letters, digits and dashes."""
    return re.sub(r"[^a-z0-9]+", "-", text.casefold()).strip("-")[:60].strip("-") or "run"


def statement(
    run_ids: Iterable[str], columns: Sequence[str] = ("*",), view: str = "signatures"
) -> str:
    """Return the SQL that gives these columns of these runs: of each site, or of ``runs``."""
    quoted = list(map(quoted_text, run_ids))
    lines = [", ".join(quoted[start : start + 6]) for start in range(0, len(quoted), 6)]
    inside = ",\n  ".join(lines) or "''"
    order = "architecture, run_id" + (", site" if view == "signatures" else "")
    names = [each if each == "*" else quoted_name(each) for each in columns]
    head = f"SELECT {', '.join(names)}\nFROM {view}"
    return f"{head}\nWHERE run_id IN (\n  {inside})\nORDER BY {order}\n"
