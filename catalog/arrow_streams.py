"""Streams of Arrow that a stranger may have written, read without taking more than they are."""

from __future__ import annotations

import struct

import pyarrow as pa

#: Where a message's flatbuffer has its header, a dictionary its batch, a batch its compression.
_HEADER, _BATCH_OF_DICTIONARY, _COMPRESSION = 2, 1, 3


def read_stream(source: pa.NativeFile) -> pa.Table:
    """Return the rows of one stream, and go on behind its end.

    Its buffers stay those of the source: compressed ones, of which some bytes may state gigabytes,
    are refused, as nothing here writes them. What the buffers say of each other is checked, since
    Arrow and DuckDB trust it.

    Parameters
    ----------
    source : pyarrow.NativeFile
        At the beginning of a stream.

    Raises
    ------
    pyarrow.ArrowException, OSError
        If it is damaged, compressed, or states more rows than it has bits.
    """
    try:
        return _checked(source)
    except (struct.error, UnicodeDecodeError) as error:
        # A place beyond the message, and a name that is no text.
        raise pa.ArrowInvalid(f"it is damaged: {error}") from None


def _checked(source: pa.NativeFile) -> pa.Table:
    start = source.tell()
    for message in pa.ipc.MessageReader.open_stream(source):
        if message.type != "schema" and _is_compressed(message):
            raise pa.ArrowInvalid("it is compressed")
    source.seek(start)
    table = pa.ipc.open_stream(source).read_all()
    if table.num_rows > 8 * (source.tell() - start):
        raise pa.ArrowInvalid(f"it states {table.num_rows:,} rows, more than it has bits")
    table.validate(full=True)
    for field in table.schema:
        _require_text(field)
    return table


def _require_text(field: pa.Field) -> None:
    """Raise a ``UnicodeDecodeError`` where a name or a time zone in a column's type is no text."""
    kind = field.type
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    _ = field.name, getattr(kind, "tz", None)
    for place in range(kind.num_fields):
        _require_text(kind.field(place))


def _is_compressed(message: pa.ipc.Message) -> bool:
    """Return whether the buffers of a batch, or of a dictionary's, are compressed."""
    content = message.metadata.to_pybytes()

    def number(kind: str, place: int) -> int:
        return int(struct.unpack_from(kind, content, place)[0])

    def field(table: int, index: int) -> int:
        """Return where a field of a table lies; 0 where it has none."""
        fields = table - number("<i", table)
        known = (number("<H", fields) - 4) // 2
        behind = number("<H", fields + 4 + 2 * index) if index < known else 0
        return table + behind if behind else 0

    def pointed(place: int) -> int:
        return place + number("<I", place)

    batch = pointed(field(pointed(0), _HEADER))
    if message.type == "dictionary":
        batch = pointed(field(batch, _BATCH_OF_DICTIONARY))
    return field(batch, _COMPRESSION) > 0
