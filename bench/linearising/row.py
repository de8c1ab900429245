"""A row of results, of a network that was trained or of one that was changed without training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Numbers of a result that a row has under the same name.
NUMBERS = (
    "top1",
    "path_length_normalised",
    "path_length",
    "active_fraction",
    "full_path_length_normalised",
    "full_path_length",
)


def trained_row(
    experiment: str, name: str, beginning: str, result: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the row of a network that was trained."""
    settings = result["settings"]
    shape = " ".join(f"{site['active']}/{site['channels']}" for site in result["sites"])
    return {
        "experiment": experiment,
        "name": name,
        "beginning": beginning,
        "omega": settings["omega"],
        "seed": settings["seed"],
        **{number: result[number] for number in NUMBERS},
        "shape": shape,
        "machine": f"{result['device_name']}, torch {result['torch']}",
        "seconds": result["seconds_a_pass"] * len(result["passes"]),
    }
