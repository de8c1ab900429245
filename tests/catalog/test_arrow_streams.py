"""Streams of Arrow from elsewhere take no more than they are, and are what they state."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from catalog.arrow_streams import read_stream
from catalog.files import checksum
from catalog.store.arrow_rows import RUN_SCHEMA
from catalog.store.segments import read_segment
from survey.errors import StoreError

TABLE = pa.table({"name": pa.array(["x", "y"] * 500).dictionary_encode(), "n": range(1000)})


def written(table: pa.Table, compression: str | None = None) -> bytes:
    stream = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(stream, table.schema, options=options) as opened:
        opened.write_table(table)
    return bytes(stream.getvalue().to_pybytes())


def test_streams_are_read_one_after_the_other() -> None:
    short = TABLE.slice(0, 3)
    source = pa.BufferReader(written(TABLE) + written(short))
    assert read_stream(source).equals(TABLE)
    assert read_stream(source).equals(short)
    assert source.tell() == source.size()


@pytest.mark.parametrize("compression", ["zstd", "lz4"])
def test_compressed_rows_are_refused_before_they_are_unpacked(
    compression: str, tmp_path: Path
) -> None:
    texts = pa.table({"run_id": ["a" * 2**26]}).cast(pa.schema([RUN_SCHEMA.field("run_id")]))
    for table in (TABLE, texts, TABLE.select(["name"])):
        before = pa.total_allocated_bytes()
        with pytest.raises(pa.ArrowInvalid, match="compressed"):
            read_stream(pa.BufferReader(content := written(table, compression)))
        assert pa.total_allocated_bytes() - before < 2**20
        (tmp_path / "segment").write_bytes(content + checksum(content))
        with pytest.raises(StoreError):
            read_segment(tmp_path / "segment")


@pytest.mark.parametrize(
    "column",
    [
        pa.array([{"name": 1}]),
        pa.array([[{"name": 1}]]),
        pa.DictionaryArray.from_arrays([0], pa.array([{"name": "x"}])),
        pa.array([0], pa.timestamp("s", "name")),
    ],
)
def test_names_within_types_are_text(column: pa.Array) -> None:
    content = written(pa.table({"column": column}))
    assert read_stream(pa.BufferReader(content)).num_rows == 1
    with pytest.raises(pa.ArrowInvalid):
        read_stream(pa.BufferReader(content.replace(b"name", b"\xff\xfe\xfd\xfc")))


def test_what_a_stream_states_of_its_rows_is_checked() -> None:
    with pytest.raises(pa.ArrowInvalid, match="rows"):
        read_stream(pa.BufferReader(written(pa.table({"a": pa.nulls(10**7)}))))
    content = written(pa.table({"text": ["abcd", "efgh"]}))
    ends = b"".join(each.to_bytes(4, "little") for each in (0, 4, 8))
    far = ends[:8] + (2**30).to_bytes(4, "little")
    assert content.count(ends) == 1
    with pytest.raises(pa.ArrowException):
        read_stream(pa.BufferReader(content.replace(ends, far)))
