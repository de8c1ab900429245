"""The data that pages of a report share: gaps, the addresses of models' pages, and SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar

import pandas as pd

from analysis.answers.columns import Table
from analysis.answers.material import Material
from analysis.data.model_names import NAMES
from analysis.data.provenance import Provenance, provenance_of
from analysis.data.random_weights import trained
from analysis.data.selected_runs import SelectedRuns
from analysis.report.elements import PageTable, page_table
from analysis.text import missing
from catalog.store.schema import quoted_name, quoted_text
from catalog.store.views import scores_that_count

#: Columns that hold the label of a model.
_MODELS = ("model", "other_model", "nearest_model", "residual", "plain", "name")


class ReportMaterial(Material):
    """The frames of a report, and the addresses of its models' pages.

    Every run has a page; those of random weights have no part in an answer unasked.
    """

    #: Rows that a table about any number of runs has at most; None for all of them.
    most_rows: ClassVar[int | None] = None

    @cached_property
    def models(self) -> pd.DataFrame:
        """One row a run, those of random weights included."""
        return super().models if self.with_untrained is self else self.with_untrained.models

    @cached_property
    def selected(self) -> SelectedRuns:
        """The runs that answers are about, by the names that they have among all."""
        every = self.with_untrained
        if every is not self and self._all_trained:
            return every.selected
        among = None if every is self else every.selected
        return SelectedRuns(self.home, self.selection, copied=self._copied, among=among)

    @property
    def every_signature(self) -> pd.DataFrame:
        """One row a run and site, those of random weights included."""
        return self.of_every_run.sites(("run_id", "affinity"))

    @property
    def of_every_run(self) -> Material:
        """The material of all runs, those of random weights included."""
        # Without any, the rows are not read again: they take a minute of thousands of runs.
        return self if self._all_trained else self.with_untrained

    @cached_property
    def _all_trained(self) -> bool:
        """Whether no run is of random weights: answers are about all of them then."""
        return bool(trained(self.models["checkpoint"]).all())

    @cached_property
    def gaps(self) -> pd.DataFrame:
        """Sites without a score: ``run_id, site, site_name, status, reason, batches, model``."""
        frame = self.with_untrained.selected.gaps()
        return frame.merge(self.models[["run_id", "model"]], on="run_id", how="left")

    @cached_property
    def measures(self) -> pd.DataFrame:
        """One row a run and measure of its whole network, random weights included."""
        takes_all = self.selection.takes_untrained
        return super().measures if takes_all else self.with_untrained.measures

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
        rows = zip(*(self.models[name].tolist() for name in ("run_id", "model")), strict=True)
        return {run: f"models/{slug(model)}-{slug(run)}.html" for run, model in rows}

    @cached_property
    def links(self) -> dict[str, dict[str, str]]:
        """The addresses that cells of a table link to, by column and value."""
        by_model = dict(zip(self.models["model"].tolist(), self.pages.values(), strict=True))
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
    run_ids: Iterable[str],
    columns: Sequence[str] = ("*",),
    view: str = "signatures",
    *,
    every_score: bool = False,
) -> str:
    """Return the SQL that gives these columns of these runs: of each site, or of ``runs``."""
    quoted = list(map(quoted_text, run_ids))
    # Names that people read are made when they are shown.
    stored = [each for each in columns if each not in NAMES]
    lines = [", ".join(quoted[start : start + 6]) for start in range(0, len(quoted), 6)]
    inside = ",\n  ".join(lines) or "''"
    of_sites = view == "signatures"
    order = "architecture, run_id" + (", site" if of_sites else "")
    names = [each if each == "*" else quoted_name(each) for each in stored]
    # As a selection reads them: what is shown is without the scores that are left out.
    counted = of_sites and not every_score
    head = f"SELECT {', '.join(names)}\nFROM "
    head += f"(SELECT {scores_that_count()}\nFROM signatures)" if counted else view
    return f"{head}\nWHERE run_id IN (\n  {inside})\nORDER BY {order}\n"
