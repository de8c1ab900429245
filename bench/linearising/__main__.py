"""The experiment of linearisation with and without training: ``docs/linearisation.md``.

    nice python -m bench.linearising HOME docs       # trains what HOME does not hold yet
    python -m bench.linearising HOME docs --composed  # from the numbers that lie in docs

The bundled networks are linearised without training, and trained under five penalties; one network
is trained on three tasks under four, all late and early. Everything is drawn from seeds. The
command goes on where it was stopped.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
import torch

from analysis.figures.export import save
from bench.linearising.figures import trained_chart, untrained_chart
from bench.linearising.networks import network_rows
from bench.linearising.tables import page
from bench.linearising.tasks import task_rows
from bench.linearising.untrained import untrained_rows

#: What follows in the page is written anew.
MARK = "<!-- From here on written by python -m bench.linearising -->\n"


def compose(folder: Path, rows: pd.DataFrame) -> None:
    """Write the figures, and the tables at the end of the page."""
    charts = {
        "untrained": untrained_chart(rows[rows.experiment == "untrained"]),
        "networks": trained_chart(rows[rows.experiment == "network"]),
        "tasks": trained_chart(rows[rows.experiment == "task"]),
    }
    for name, chart in charts.items():
        save(chart, folder / "figures" / f"linearised_{name}.svg")
    path = folder / "linearisation.md"
    written, _, _ = path.read_text(encoding="utf-8").partition(MARK)
    path.write_text(f"{written}{MARK}\n{page(rows)}", encoding="utf-8")


def main() -> None:
    """Train what is not trained, and write numbers, figures and tables."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.linearising", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("home", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--composed", action="store_true", help="train nothing")
    options = parser.parse_args()
    numbers = options.folder / "figures" / "linearised.csv"
    torch.set_num_threads(1)
    if not options.composed:
        trained = [
            *network_rows(options.home, options.seeds),
            *task_rows(options.home, options.seeds),
        ]
        rows = pd.DataFrame([*untrained_rows(), *trained])
        rows.to_csv(numbers, index=False, float_format="%.6g", lineterminator="\n")
    compose(options.folder, pd.read_csv(numbers))


if __name__ == "__main__":
    main()
