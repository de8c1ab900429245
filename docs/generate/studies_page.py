"""The document of the studies: ``python -m docs.generate.studies_page docs [STUDY ...]``.

Runs studies with their defaults, writes each one's table and figure into ``docs/figures``, and
composes ``docs/activations.md`` from all tables that lie there. Every number in the document
comes from those tables. About ten minutes for all of them on two idle cores.
"""

from __future__ import annotations

import argparse
import logging
import textwrap
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd

from analysis.figures.export import save
from analysis.studies.catalogue import STUDIES, Study, study

_log = logging.getLogger(__name__)

_INTRODUCTION = """\
# Studies of activation functions

How the affinity score behaves on activations alone, and on small networks: the experiments behind
Figures 2 and 6 to 9 of Bouniot et al. 2025 (arXiv:2310.11439), and random perceptrons. A score of
1 is affine.

This page is written by `make figures`: its tables, its figures and what the text says of results
come from the tables in [`figures/`](figures). In Python each study is a function that returns a
table and one that draws it: `from analysis import comparison_scores, comparison_chart`. All draws
are seeded.

Inputs are float64, covariances are shrunk (Ledoit and Wolf) unless said otherwise, and the ridge
is relative: 1e-6 of the mean variance. The published absolute ridge of 1e-6 would decide the score
wherever an activation saturates. Networks are measured with the default settings of `survey run`.
"""


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
        table = one.run(_log.info)
        table.to_csv(
            _table_file(folder, one), index=False, float_format="%.6g", lineterminator="\n"
        )
        _log.info("%s: %.0f seconds", one.name, time.perf_counter() - began)
    sections = [_section(folder, one) for one in STUDIES if _table_file(folder, one).is_file()]
    text = "\n".join([_INTRODUCTION, *sections])
    (folder / "activations.md").write_text(text, encoding="utf-8")


def _table_file(folder: Path, one: Study) -> Path:
    return folder / "figures" / f"{one.name}.csv"


def _section(folder: Path, one: Study) -> str:
    """Draw a study's figures from its table and return its text."""
    table = pd.read_csv(_table_file(folder, one))
    section = one.section(table)
    pictures = []
    for name, chart in {one.name: one.draw(table), **section.more_charts}.items():
        save(chart, folder / "figures" / f"{name}.svg")
        pictures.append(f"![{one.sentence}](figures/{name}.svg)")
    title = f"## {section.title}" + (f" ({one.figure})" if one.figure else "")
    command = f"```\nsurvey activations {one.name}\n```"
    parts = [title, _wrapped(section.setting), _wrapped(section.results), command, *pictures]
    return "\n\n".join(parts) + "\n"


def _wrapped(text: str) -> str:
    """Break the lines of paragraphs, and leave tables and lists as they are."""
    parts = text.split("\n\n")
    return "\n\n".join(p if p[0] in "|-" else textwrap.fill(p, 100) for p in parts)


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
