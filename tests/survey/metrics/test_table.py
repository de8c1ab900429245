"""The page of metrics is what the declarations say."""

from __future__ import annotations

from pathlib import Path

from docs.generate.metrics_page import markdown
from survey.metrics import QUANTITIES

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown()


def test_every_quantity_has_a_row_in_both_tables() -> None:
    lines = markdown().splitlines()
    for quantity in QUANTITIES:
        rows = [line for line in lines if line.startswith(f"| `{quantity.name}` |")]
        assert [line.replace("\\|", "").count("|") for line in rows] == [9, 16]
