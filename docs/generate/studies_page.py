"""The document of the studies: ``python -m docs.generate.studies_page docs [STUDY ...]``.

Runs studies with their defaults, writes each one's table and figure into ``docs/figures``, and
composes ``docs/activations.md`` from all tables that lie there and the texts in ``studies``. Every
number in the document comes from those tables. About ten minutes for all of them on two idle cores.
"""

from __future__ import annotations

import argparse
import logging
import textwrap
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from analysis.figures.export import save
from analysis.studies.catalogue import STUDIES, Study, study
from analysis.studies.ranges import range_line_chart
from docs.generate import study_numbers

_log = logging.getLogger(__name__)

_TEXTS = Path(__file__).parent / "studies"

#: Further figures of a study, by the names of their files.
_MORE_CHARTS = {"ranges": {"range_lines": range_line_chart}}


def write_document(folder: Path, names: Sequence[str]) -> None:
    """Run studies, and compose the document from every table there is.

    Parameters
    ----------
    folder : pathlib.Path
        Where ``activations.md`` and ``figures`` go.
    names : sequence of str
        The studies to run again.
    """
    chosen = [study(name) for name in names]
    (folder / "figures").mkdir(parents=True, exist_ok=True)
    for one in chosen:
        began = time.perf_counter()
        table = one.run()
        table.to_csv(
            _table_file(folder, one), index=False, float_format="%.6g", lineterminator="\n"
        )
        _log.info("%s: %.0f seconds", one.name, time.perf_counter() - began)
    sections = [_section(folder, one) for one in STUDIES if _table_file(folder, one).is_file()]
    introduction = (_TEXTS / "introduction.md").read_text(encoding="utf-8")
    text = "\n".join([introduction, *sections])
    (folder / "activations.md").write_text(text, encoding="utf-8")


def _table_file(folder: Path, one: Study) -> Path:
    return folder / "figures" / f"{one.name}.csv"


def _section(folder: Path, one: Study) -> str:
    """Draw a study's figures from its table and return its text."""
    table = pd.read_csv(_table_file(folder, one))
    text = (_TEXTS / f"{one.name}.md").read_text(encoding="utf-8")
    numbers = getattr(study_numbers, one.name)(table)
    parts = [*map(_wrapped, text.format_map(numbers).strip().split("\n\n"))]
    parts.append(f"```\nsurvey activations {one.name}\n```")
    charts: Mapping[str, Any] = {one.name: one.draw, **_MORE_CHARTS.get(one.name, {})}
    for name, draw in charts.items():
        save(draw(table), folder / "figures" / f"{name}.svg")
        parts.append(f"![{one.sentence}](figures/{name}.svg)")
    return "\n\n".join(parts) + "\n"


def _wrapped(part: str) -> str:
    """Break the lines of a paragraph, and leave a heading, a table or a list as it is."""
    return part if part[0] in "#|-" else textwrap.fill(part, 100)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line of ``python -m docs.generate.studies_page``."""
    parser = argparse.ArgumentParser(prog="python -m docs.generate.studies_page")
    parser.add_argument("folder", type=Path, metavar="FOLDER")
    names = [one.name for one in STUDIES]
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=f"of {', '.join(names)}")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    write_document(options.folder, options.studies or names)


if __name__ == "__main__":
    main()
