"""The linearisations that a home holds: their states and their results, a file each."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from catalog.bounds import read_json
from catalog.files import whole_file
from catalog.home import Home
from survey.errors import StoreError

#: Bytes of the largest result that is read; of the largest network it is a hundredth.
_MOST_BYTES = 2**26

#: What no number that is shown reaches: path lengths and seconds are far below.
_MOST = 1e15


@dataclass(frozen=True)
class _Site:
    active: int
    channels: int


@dataclass(frozen=True)
class _Shown:
    """What is shown of a result."""

    top1: float | None = None
    path_length: float | None = None
    path_length_normalised: float | None = None
    active_fraction: float | None = None
    seconds_a_pass: float | None = None
    sites: tuple[_Site, ...] = ()


def state_path(home: Home, run_id: str) -> Path:
    """Return where the state of a training lies, and when it is done that of the network."""
    return home.linearisations / f"{run_id}.safetensors"


def write_result(home: Home, result: Mapping[str, Any]) -> None:
    """Write the result of a linearisation, whole or not at all.

    Parameters
    ----------
    home : Home
        Opened.
    result : mapping
        Plain values by name; ``run_id`` is one.

    Raises
    ------
    StoreError
        If it cannot be written.
    """
    path = _result_path(home, result["run_id"])
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with (
            whole_file(path, lasting=True) as partial,
            partial.open("w", encoding="utf-8") as file,
        ):
            json.dump(result, file, indent=1, allow_nan=False)
    except OSError as error:
        raise StoreError(
            f"{path} cannot be written: {error.strerror or error}",
            hint="free some disk space and run the same command again; it goes on from there",
        ) from error


def read_result(home: Home, run_id: str) -> dict[str, Any] | None:
    """Return the result of a linearisation; None where it is not done.

    Raises
    ------
    StoreError
        If its file is damaged, or holds values of other types.
    """
    from pydantic import TypeAdapter

    path = _result_path(home, run_id)
    try:
        result: dict[str, Any] = read_json(path, _MOST_BYTES)
        # By way of JSON, in which a list may stand for a tuple.
        TypeAdapter(_Shown).validate_json(json.dumps(result), strict=True)
        for name in _Shown.__dataclass_fields__.keys() - {"sites"}:
            if not abs(float(result.get(name) or 0)) < _MOST:
                raise ValueError(f"{name} is {result[name]!r:.20}")
    except FileNotFoundError:
        return None
    except (OSError, ValueError, OverflowError) as error:
        raise StoreError(
            f"{path} cannot be read: {error}",
            hint="remove it and run the same command again: the trained network is kept",
        ) from error
    return result


def _result_path(home: Home, run_id: str) -> Path:
    return home.linearisations / f"{run_id}.json"
