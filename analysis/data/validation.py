"""What a function is given: refused in a word where it is something else.

In a notebook one frame is easily taken for another; pandas would say which key it missed, and not
which frame was wanted.
"""

from __future__ import annotations

from collections.abc import Iterable

import pandas as pd

from survey.errors import SettingsError

#: Where most frames come from.
SIGNATURES = "analysis.signatures(home)"

#: Where the others of a home come from.
MODELS, LAYERS = "analysis.models(home)", "analysis.layers(home)"


def require_columns(frame: pd.DataFrame, columns: Iterable[str], source: str = SIGNATURES) -> None:
    """Refuse what is not a data frame with these columns.

    Parameters
    ----------
    frame : pandas.DataFrame
        What was given, anything in truth.
    columns : iterable of str
        The columns that are read.
    source : str
        The call that returns such a frame, for the hint.

    Raises
    ------
    SettingsError
        If it is no data frame, lacks one of them, or has a row a batch where signatures are wanted.
    """
    require_kind(frame, pd.DataFrame, source)
    # Those of layers have the columns of signatures, and each site as often as there are batches.
    if source == SIGNATURES and "batch" in frame:
        raise SettingsError(
            "the frame has a row for each batch of a site, not one a site", hint=f"pass {source}"
        )
    missing = [name for name in columns if name not in frame]
    if missing:
        raise SettingsError(
            f"the frame has no column {', '.join(missing)}", hint=f"pass one of {source}"
        )


def require_kind(value: object, kind: type, source: str) -> None:
    """Refuse what is not of a class.

    Parameters
    ----------
    value : object
        What was given.
    kind : type
        What is wanted.
    source : str
        The call that returns it, for the hint.

    Raises
    ------
    SettingsError
        If it is something else.
    """
    if not isinstance(value, kind):
        raise SettingsError(
            f"a {kind.__name__} is wanted, not a {type(value).__name__}", hint=f"pass {source}"
        )
