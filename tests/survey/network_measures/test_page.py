"""The page of measures is what the declarations say."""

from __future__ import annotations

from pathlib import Path

from docs.generate.measures_page import markdown
from survey.network_measures import NETWORK_QUANTITIES

PAGE = Path(__file__).parents[3] / "docs" / "measures.md"


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == markdown()


def test_every_quantity_has_a_row() -> None:
    text = markdown()
    assert all(f"| `{quantity.name}` |" in text for quantity in NETWORK_QUANTITIES)
