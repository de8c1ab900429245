"""Checks of arguments: whether a frame is the one that a function reads.

In a notebook one frame is easily taken for another. pandas would name the missing key, and not the
function that returns the right frame.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import get_args

import pandas as pd

from survey.errors import SettingsError

#: The call that returns most frames, for hints.
SIGNATURES = "analysis.signatures(home)"

#: The calls that return the others.
MODELS, LAYERS = "analysis.models(home)", "analysis.layers(home)"


#: A column of frames whose rows are parts of the rows wanted, by the call that returns these.
_FINER = {SIGNATURES: "batch", MODELS: "site"}


def require_columns(frame: pd.DataFrame, columns: Iterable[str], source: str = SIGNATURES) -> None:
    """Raise unless a value is a data frame with these columns.

    Parameters
    ----------
    frame : pandas.DataFrame
        The argument, of any class.
    columns : iterable of str
        The columns that the function reads.
    source : str
        The call that returns such a frame, for the hint.

    Raises
    ------
    SettingsError
        If it is no data frame, lacks one of them, or has a row a batch where signatures are
        wanted, or a row a site where models are.
    """
    require_kind(frame, pd.DataFrame, source)
    # Frames of layers have the columns of signatures too, and those many of the columns of models.
    finer = _FINER.get(source)
    if finer in frame:
        raise SettingsError(f"the frame has a row for each {finer}", hint=f"pass {source}")
    missing = [name for name in columns if name not in frame]
    if missing:
        raise SettingsError(
            f"the frame has no column {', '.join(missing)}", hint=f"pass one of {source}"
        )


def require_kind(value: object, kind: type, source: str) -> None:
    """Raise unless a value is of a class.

    Parameters
    ----------
    value : object
        The argument.
    kind : type
        The class wanted.
    source : str
        The call that returns it, for the hint.

    Raises
    ------
    SettingsError
        If it is of another class.
    """
    if not isinstance(value, kind):
        raise SettingsError(
            f"a {kind.__name__} is wanted, not a {type(value).__name__}", hint=f"pass {source}"
        )


def require_choice(name: str, value: str, choices: object) -> None:
    """Raise unless a value is one of those allowed.

    Parameters
    ----------
    name : str
        The argument's name, for the message.
    value : str
        The argument.
    choices : typing.Literal
        The values allowed, of ``analysis.choices``.

    Raises
    ------
    SettingsError
        If it is another.
    """
    if value not in get_args(choices):
        known = ", ".join(get_args(choices))
        raise SettingsError(f"the {name} is {value!r}, must be one of {known}")
