"""Files that are replaced whole: an error leaves the old one, and nothing beside it."""

from __future__ import annotations

from pathlib import Path

import pytest

from catalog.files import keep_in_cache, whole_file


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for content in ("one", "two"):
        with whole_file(path) as partial:
            partial.write_text(content)
        assert path.read_text() == content
    with pytest.raises(UnicodeEncodeError), whole_file(path) as partial:
        partial.write_text("half, and \N{EURO SIGN}", encoding="ascii")
    assert path.read_text() == "two"
    assert list(tmp_path.iterdir()) == [path]


def test_a_cache_that_cannot_be_written_is_left_out(tmp_path: Path) -> None:
    keep_in_cache(tmp_path / "made" / "list.json", lambda partial: partial.write_text("[]"))
    assert [each.name for each in (tmp_path / "made").iterdir()] == ["list.json"]
    keep_in_cache(tmp_path / "made" / "list.json" / "below", lambda partial: partial.write_text(""))
    assert (tmp_path / "made" / "list.json").read_text() == "[]"
