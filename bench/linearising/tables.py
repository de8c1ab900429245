"""The tables of the results, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pandas as pd
from scipy import stats

from docs.generate.tables import markdown_table

#: Path lengths of the tables of gaps, and the confidence of their intervals.
LENGTHS, CONFIDENCE = (0.25, 0.5, 1.0, 1.5, 2.0, 3.0), 0.95

#: Shares of the channels in the table of networks that were not trained, in percent.
PERCENTAGES = (0, 25, 50, 75, 90, 100)


def page(rows: pd.DataFrame) -> str:
    """Return all tables, each under a heading of its own."""
    untrained = rows[rows.experiment == "untrained"]
    trained = rows[rows.experiment != "untrained"]
    parts = ["### Without training", untrained_table(untrained)]
    for name, some in grouped(trained, "name"):
        full = some.iloc[0]
        lengths = f"{full.full_path_length_normalised:.2f} (walk), {full.full_path_length:.2f}"
        machines = ", ".join(some.machine.unique())
        parts += [
            f"### {name}",
            f"{len(some)} trainings on {machines}; with every ReLU {lengths} (all paths) long.",
            training_table(some),
            gap_table(some),
            "Active channels, ReLU by ReLU from the input on, in percent (mean over seeds):",
            shape_table(some),
        ]
    return "\n\n".join(parts) + "\n"


def untrained_table(rows: pd.DataFrame) -> str:
    """Return accuracy and path length with some shares of the channels replaced."""
    lines = []
    for name, curve in grouped(rows, "name"):
        points = curve.set_index("percentage").loc[list(PERCENTAGES)]
        first = points.iloc[0]
        cells = zip(points.top1, points.path_length_normalised, strict=True)
        summary = f"{first.summary:.2f} ± {first.standard_error:.2f}"
        lines.append([name, *(f"{top1:.3f} at {length:.1f}" for top1, length in cells), summary])
    shares = [f"{percentage} %" for percentage in PERCENTAGES]
    return markdown_table(["network", *shares, "length at 90 % of the accuracy"], lines)


def training_table(rows: pd.DataFrame) -> str:
    """Return accuracy and path lengths by beginning and penalty."""
    digits = {"top1": 3, "path_length_normalised": 2, "path_length": 2, "active_fraction": 3}
    lines = [
        [
            *(beginning, f"{omega:g}", str(len(some))),
            *(spread(some[name], places) for name, places in digits.items()),
        ]
        for (beginning, omega), some in grouped(rows, ["beginning", "omega"])
    ]
    lengths = ["path length, walk", "all paths"]
    head = ["beginning", "omega", "seeds", "top-1", *lengths, "active channels"]
    return markdown_table(head, lines)


def spread(values: Sequence[float] | pd.Series[float], digits: int) -> str:
    """Return a mean with the deviation."""
    several = np.asarray(values, dtype=float)
    deviation = f" ± {several.std(ddof=1):.{digits}f}" if len(several) > 1 else ""
    return f"{several.mean():.{digits}f}{deviation}"


def gap_table(rows: pd.DataFrame) -> str:
    """Return both accuracies and their gap where all curves of a seed have a path length."""
    lines = []
    for length in LENGTHS:
        pairs = [_accuracies(some, length) for _, some in grouped(rows, "seed")]
        both = np.array([pair for pair in pairs if None not in pair], dtype=float)
        if len(both):
            late, early = both.T
            gap = late - early
            cells = (f"{late.mean():.3f}", f"{early.mean():.3f}", f"{gap.mean():+.3f}")
            lines.append([f"{length:g}", str(len(both)), *cells, interval(gap)])
    head = ["path length, walk", "seeds", "late", "early", "late minus early"]
    return markdown_table([*head, "95 % interval over seeds"], lines)


def _accuracies(rows: pd.DataFrame, length: float) -> tuple[float | None, float | None]:
    late, early = (accuracy_at(rows[rows.beginning == name], length) for name in ("late", "early"))
    return late, early


def accuracy_at(points: pd.DataFrame, length: float) -> float | None:
    """Return the accuracy at a path length on the line through points; None outside of them."""
    curve = points.groupby("path_length_normalised").top1.mean()
    if curve.empty or not curve.index[0] <= length <= curve.index[-1]:
        return None
    return float(np.interp(length, curve.index, curve))


def interval(values: Sequence[float] | np.ndarray[Any, Any]) -> str:
    """Return Student's interval of a mean; nothing of one value."""
    n, centre = len(values), float(np.mean(values))
    if n < 2:
        return ""
    quantile = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1))
    reach = quantile * float(np.std(values, ddof=1)) / n**0.5
    return f"{centre - reach:+.3f} to {centre + reach:+.3f}"


def shape_table(rows: pd.DataFrame) -> str:
    """Return the mean share of active channels of each ReLU."""
    lines = []
    for (beginning, omega), some in grouped(rows, ["beginning", "omega"]):
        shares = np.mean([_shares(shape) for shape in some["shape"]], axis=0)
        lines.append([beginning, f"{omega:g}", " ".join(f"{share:.0f}" for share in shares)])
    return markdown_table(["beginning", "omega", "shape"], lines)


def _shares(shape: str) -> list[float]:
    """Return percentages from text such as ``3/8 16/16``."""
    counts = (site.split("/") for site in shape.split())
    return [100 * int(active) / int(channels) for active, channels in counts]


def grouped(rows: pd.DataFrame, by: str | list[str]) -> Iterator[tuple[Any, pd.DataFrame]]:
    """Yield groups in the order in which they first come."""
    yield from rows.groupby(by, sort=False)
