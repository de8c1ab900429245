"""One table, four ways to write it."""

import datetime
import io
import json
import math

import pyarrow as pa
import pyarrow.parquet
import pytest

from jobs.cli.output import as_text, emit
from survey import SettingsError

TABLE = pa.Table.from_pylist(
    [
        {"name": "a", "score": 0.123456, "count": 3, "flags": ["ridge", "dead"], "none": None},
        {"name": "b", "score": None, "count": 40, "flags": [], "none": None},
    ]
)


def test_text_is_aligned_and_says_null_as_a_dash():
    lines = as_text(TABLE).splitlines()
    assert lines[0].split() == ["name", "score", "count", "flags", "none"]
    assert lines[2].split() == ["a", "0.1235", "3", "ridge,", "dead", "-"]
    assert lines[3].split() == ["b", "-", "40", "-", "-"]


def test_json_is_json_even_with_nan_and_times(tmp_path):
    when = datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC)
    table = pa.Table.from_pylist([{"x": math.nan, "when": when, "deep": {"a": [math.inf]}}])
    emit(table, "json", tmp_path / "out.json")
    read = json.loads((tmp_path / "out.json").read_text())
    assert read == [{"x": None, "when": str(when), "deep": {"a": [None]}}]


def test_csv_writes_lists_as_json_text(tmp_path):
    emit(TABLE, "csv", tmp_path / "out.csv")
    assert '"[""ridge"", ""dead""]"' in (tmp_path / "out.csv").read_text()


def test_parquet_comes_back_whole(tmp_path):
    emit(TABLE, "parquet", tmp_path / "out.parquet")
    assert pyarrow.parquet.read_table(tmp_path / "out.parquet").to_pylist() == TABLE.to_pylist()


def test_a_file_that_cannot_be_written_is_named_and_leaves_nothing(tmp_path):
    with pytest.raises(SettingsError, match="cannot be written"):
        emit(TABLE, "csv", tmp_path / "none" / "out.csv")
    assert list(tmp_path.iterdir()) == []


def test_parquet_is_not_written_to_a_terminal(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr("sys.stdout", Terminal())
    with pytest.raises(SettingsError, match="terminal"):
        emit(TABLE, "parquet")
