"""Pages of answers, as HTML and files, from the code that makes a report's pages.

It runs in other processes (``jobs.service.renderer``): what it computes keeps no request waiting.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from io import BytesIO

from analysis.report.elements import Exhibit, Page
from analysis.report.inline_svg import drawn, write_data
from jobs.service.kept_material import kept_material
from jobs.service.pages.asked import Asked
from jobs.service.pages.material import RunMaterial, ServiceMaterial
from jobs.service.pages.overview import overview
from jobs.service.pages.questions import question
from jobs.service.pages.runs import comparison, nearest, runs, signature
from jobs.service.pages.selections import query_of
from jobs.service.pages.site import Addresses, rendered

#: Letters of drawings in a page about all runs, and in one about a few, whose marks show values:
#: with tables, a page is to have less than 300 kB.
_ROOM, _ROOM_OF_FEW = 100_000, 250_000

#: What makes each kind of page.
_KINDS = {
    "overview": overview,
    "question": question,
    "signature": signature,
    "nearest": nearest,
    "runs": runs,
    "comparison": comparison,
}


@dataclass(frozen=True, slots=True)
class Made:
    """A page that was made, or the data of its figures."""

    #: What the home held.
    revision: str
    html: str
    #: Files of its figures, by their addresses below the page's.
    files: Mapping[str, bytes]

    def size(self) -> int:
        """Return the bytes that it takes."""
        return len(self.html) + sum(map(len, self.files.values()))


def make(asked: Asked) -> Made:
    """Return a page with the drawings of its figures.

    Raises
    ------
    SettingsError
        If nothing is selected, or the data do not allow the page.
    UnknownName
        If there is no such question or run.
    """
    material, page = _page(asked)
    files: dict[str, bytes] = {}
    room = _ROOM if asked.rows is None else _ROOM_OF_FEW
    exhibits, lacking = drawn(page.exhibits, partial(_keep, files), data=False, room=room)
    caption = material.provenance.caption() if page.values else ""
    html = rendered(
        page.template,
        page.link,
        Addresses(page.link.address, query_of(asked.selection), asked.file_query),
        **{"caption": caption, **page.values, "exhibits": exhibits, "lacking": lacking},
    )
    return Made(asked.revision, html, files)


def make_data(asked: Asked) -> Made:
    """Return data and SQL of a page's figures; errors are those of ``make``.

    They are made when they are asked for: of thousands of runs they take as long as the page.
    """
    files: dict[str, bytes] = {}
    for each in _page(asked)[1].exhibits:
        write_data(each, partial(_keep, files))
        files[f"data/{each.name}.parquet"] = _parquet(each)
    return Made(asked.revision, "", files)


def _page(asked: Asked) -> tuple[ServiceMaterial, Page]:
    if asked.rows is None:
        material = kept_material(ServiceMaterial, asked.home, asked.revision, asked.selection)
    else:
        material = RunMaterial(asked.home, asked.rows)
    return material, _KINDS[asked.kind](material, asked)


def _keep(files: dict[str, bytes], name: str, content: str | bytes) -> None:
    files[name] = content.encode() if isinstance(content, str) else content


def _parquet(exhibit: Exhibit) -> bytes:
    rows, stream = exhibit.rows().copy(deep=False), BytesIO()
    # They name the home, and pandas writes them into the file.
    rows.attrs = {}
    rows.to_parquet(stream, index=False)
    return stream.getvalue()
