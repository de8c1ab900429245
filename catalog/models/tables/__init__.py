"""Tables of facts about models: the CSV files beside this module."""

from __future__ import annotations

import csv
from importlib.resources import files

#: Their folder.
FOLDER = files(__name__)


def read_table(file_name: str) -> csv.DictReader[str]:
    """Return the rows of a table; lines that begin with ``#`` are comments."""
    lines = (FOLDER / file_name).read_text(encoding="utf-8").splitlines()
    return csv.DictReader(line for line in lines if not line.startswith("#"))
