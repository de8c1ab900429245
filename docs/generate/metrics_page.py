"""The page that lists every quantity, written from the declarations."""

from __future__ import annotations

import math
from typing import get_args

from survey.metrics import METRICS
from survey.metrics.base import Invariance, Quantity

_HEAD = """# Metrics

Written from the declarations in `survey/metrics`, which the test suite checks on random data.

X and Y are a site's pooled input and output (n images x c channels), Xc and Yc the same minus
their column means, |.| the Frobenius norm, log the natural logarithm. A quantity that is not
defined for a pair is empty in the result, and the row's `notes` say why.
"""

_DIRECTIONS = {
    "higher": "higher is more linear",
    "lower": "lower is closer to the identity",
    "none": "none",
}

_CHANGES: dict[Invariance, str] = {
    "images": "the rows of X and Y permuted alike",
    "pairing": "the rows of Y permuted alone",
    "channels": "the columns of X and Y permuted alike",
    "channels_output": "the columns of Y permuted alone",
    "rotation": "X and Y mapped by one orthogonal matrix",
    "rotation_input": "X mapped by an orthogonal matrix",
    "rotation_output": "Y mapped by an orthogonal matrix",
    "scale": "X and Y multiplied by one positive number",
    "scale_input": "X multiplied by a positive number",
    "scale_output": "Y multiplied by a positive number",
    "shift": "one vector added to every row of X and Y",
    "shift_input": "one vector added to every row of X",
    "shift_output": "one vector added to every row of Y",
    "swap": "X and Y exchanged",
}


def markdown() -> str:
    """Return the page: what each quantity is, and what it does not see."""
    quantities = [quantity for metric in METRICS for quantity in metric.quantities]
    changes = get_args(Invariance)
    head = ["column", "what it is", "formula", "range", "unit", "direction", "least n", "source"]
    lines = [
        _HEAD,
        "## What each is\n",
        _row(head),
        _row(["---"] * len(head)),
        *map(_described, quantities),
        "\n## What each does not see\n",
        "`x`: the value stays as it is. For both affinities the three scales hold exactly with the",
        "relative ridge, and up to the ridge of 1e-6 with the absolute one.\n",
        _row(["column", *changes]),
        _row(["---"] * (1 + len(changes))),
        *(_seen(quantity, changes) for quantity in quantities),
        "",
        *(f"- `{name}`: {_CHANGES[name]}" for name in changes),
    ]
    return "\n".join(lines) + "\n"


def _described(quantity: Quantity) -> str:
    least = str(quantity.least_images)
    return _row(
        [
            f"`{quantity.name}`",
            quantity.sentence,
            f"`{quantity.formula}`".replace("|", "\\|"),
            f"{_end(quantity.low)} to {_end(quantity.high)}",
            quantity.unit,
            _DIRECTIONS[quantity.direction],
            "c + 1" if quantity.more_than_channels else least,
            quantity.source,
        ]
    )


def _seen(quantity: Quantity, changes: tuple[Invariance, ...]) -> str:
    marks = ("x" if name in quantity.invariances else "" for name in changes)
    return _row([f"`{quantity.name}`", *marks])


def _end(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else f"{'-' if value < 0 else ''}infinity"


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"
