"""The page on the stores is what the code says, and leaves no column without a sentence."""

from pathlib import Path

from docs.generate.schema_page import page

DOCS = Path(__file__).resolve().parents[2] / "docs"


def test_the_page_is_what_the_code_says():
    assert (DOCS / "schema.md").read_text(encoding="utf-8") == page(), "run: make docs"


def test_every_table_and_column_has_a_sentence():
    lines = page().splitlines()
    tables = [lines[place + 2] for place, line in enumerate(lines) if line.startswith("### ")]
    columns = [line.split("|")[3].strip() for line in lines if line.startswith("| `")]
    assert len(tables) > 15
    assert len(columns) > 100
    for sentence in (*tables, *columns):
        assert sentence.endswith("."), sentence
