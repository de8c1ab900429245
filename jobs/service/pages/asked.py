"""A page that is asked for, of what a home holds or of a few of its runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlencode

from analysis.data.few_runs import RunRows
from analysis.data.selection import Selection
from jobs.service.pages.options import Given


@dataclass(frozen=True, slots=True)
class Asked:
    """A page that is asked for."""

    home: Path
    #: What the home held: another value, another page.
    revision: str
    kind: str
    selection: Selection = field(default_factory=Selection)
    #: The question's name, or the metric that runs are compared by.
    name: str = ""
    runs: tuple[str, ...] = ()
    #: The rows of a page about these runs alone; the revision changes with them.
    rows: RunRows | None = field(default=None, compare=False, repr=False)
    #: Options of the question.
    options: Given = ()

    @property
    def file_query(self) -> str:
        """What the addresses of its figures' files name beside the selection."""
        if self.kind != "comparison":
            return urlencode(self.options)
        return urlencode([*(("run", run) for run in self.runs), ("metric", self.name)])
