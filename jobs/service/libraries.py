"""The libraries of answers, loaded before the first one is asked for.

They take seconds, which no answer is to be slow by, nor to be counted as slow for.
"""

from __future__ import annotations

from pkgutil import resolve_name

import pyarrow as pa


def load_libraries() -> None:
    """Load what answers are computed with; at once where that was done."""
    from analysis.answers import ANSWERS

    for answer in ANSWERS:
        # One of several methods has a function for each.
        for function in (getattr(answer, name, "") for name in ("computed_by", "found_by")):
            if function:
                resolve_name(function)
    # What Arrow and pandas load on first use.
    frame = pa.Table.from_pandas(pa.table({"": [""]}).to_pandas()).to_pandas()
    frame.to_dict("records")
