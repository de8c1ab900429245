"""Arrow arrays and tables made of Python's values, without pandas.

``pyarrow.array``, ``pyarrow.scalar`` and what calls them (``Table.from_pylist``, a text compared by
``pyarrow.compute``) import pandas first, which takes a quarter of the time of torch's import.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from operator import index
from typing import Any

import numpy as np
import pyarrow as pa

_EPOCH, _MICROSECOND = datetime.fromtimestamp(0, UTC), timedelta(microseconds=1)


def table_of(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table; what a row lacks is NULL."""
    rows = list(rows)
    columns = [array_of([row.get(each.name) for row in rows], each.type) for each in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def array_of(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return an array of values.

    Parameters
    ----------
    values : sequence
        None is NULL. A value of a struct is a tuple of its fields, a time has a zone.
    kind : pyarrow.DataType
        A text, a truth value, an integer, a floating number, a time in microseconds; a list or a
        struct of such.

    Raises
    ------
    TypeError, ValueError, OverflowError
        If a value is of another type.
    """
    if pa.types.is_null(kind):
        return pa.nulls(len(values))
    if pa.types.is_string(kind):
        builder = pa.lib.StringBuilder()
        builder.append_values(values)
        return builder.finish()
    buffers, children = [_bits([each is not None for each in values])], []
    if pa.types.is_struct(kind):
        absent = (None,) * kind.num_fields
        columns = zip(*[absent if v is None else v for v in values], strict=True)
        of_fields = list(columns) or [()] * kind.num_fields
        children = [array_of(c, f.type) for c, f in zip(of_fields, kind, strict=True)]
    elif pa.types.is_list(kind):
        ends = np.cumsum([0, *(len(each or ()) for each in values)], dtype=np.int32)
        buffers.append(pa.py_buffer(ends))
        children = [array_of([x for each in values for x in each or ()], kind.value_type)]
    else:
        buffers.append(_numbers(values, kind))
    return pa.Array.from_buffers(kind, len(values), buffers, children=children or None)


def _numbers(values: Sequence[Any], kind: pa.DataType) -> pa.Buffer:
    if pa.types.is_boolean(kind):
        return _bits([bool(each) for each in values])
    if pa.types.is_timestamp(kind):
        whole = [0 if each is None else (each - _EPOCH) // _MICROSECOND for each in values]
        return pa.py_buffer(np.array(whole, np.int64))
    if pa.types.is_floating(kind):
        return pa.py_buffer(np.array([np.nan if v is None else v for v in values], _dtype(kind)))
    return pa.py_buffer(np.array([0 if v is None else index(v) for v in values], _dtype(kind)))


def _dtype(kind: pa.DataType) -> np.dtype[Any]:
    dtype: np.dtype[Any] = np.dtype(kind.to_pandas_dtype())
    return dtype


def _bits(values: Sequence[bool]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array(values, bool), bitorder="little"))
