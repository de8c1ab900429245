"""The page that lists every quantity, made from the declarations: ``docs/metrics.md``.

``python -m docs.generate.metrics_page`` writes it to standard output.
"""

from __future__ import annotations

import math
import sys

from docs.generate.tables import markdown_table
from survey.metrics import all_quantities
from survey.metrics.base import INVARIANCES, Quantity

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


def markdown() -> str:
    """Return the page: what each quantity is, and what it does not see."""
    quantities = all_quantities()
    head = ["column", "what it is", "formula", "range", "unit", "direction", "least n", "source"]
    lines = [
        _HEAD,
        "## What each is\n",
        markdown_table(head, map(_described, quantities)),
        "\n## What each does not see\n",
        "`x`: the value stays as it is. For both affinities the three scales hold exactly with the",
        "relative ridge, and up to the ridge of 1e-6 with the absolute one.\n",
        markdown_table(["column", *INVARIANCES], map(_unseen, quantities)),
        "",
        *(f"- `{name}`: {change}" for name, change in INVARIANCES.items()),
    ]
    return "\n".join(lines) + "\n"


def _described(quantity: Quantity) -> list[str]:
    return [
        f"`{quantity.name}`",
        quantity.sentence,
        f"`{quantity.formula}`",
        range_text(quantity.low, quantity.high),
        quantity.unit,
        _DIRECTIONS[quantity.direction],
        "c + 1" if quantity.more_than_channels else str(quantity.least_images),
        quantity.source,
    ]


def _unseen(quantity: Quantity) -> list[str]:
    marks = ("x" if name in quantity.invariances else "" for name in INVARIANCES)
    return [f"`{quantity.name}`", *marks]


def range_text(low: float, high: float) -> str:
    """Return the range of a quantity."""
    return f"{_end(low)} to {_end(high)}"


def _end(value: float) -> str:
    return f"{value:g}" if math.isfinite(value) else f"{'-' if value < 0 else ''}infinity"


if __name__ == "__main__":
    sys.stdout.write(markdown())
