"""Arrow arrays made without pandas are those that pyarrow makes."""

import math
import subprocess
import sys
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest

from catalog.arrow_arrays import array_of, table_of

pytestmark = pytest.mark.quick

_EAST = timezone(timedelta(hours=2))
_PLACE = pa.struct([("name", pa.string()), ("sizes", pa.list_(pa.int32()))])

CASES = [
    (pa.string(), ["a", None, "", "\u00e9\U0001f9ea"]),
    (pa.bool_(), [True, None, False] * 5),
    (pa.int32(), [-(2**31), None, 2**31 - 1]),
    (pa.int64(), [2**63 - 1, None, 5]),
    (pa.float64(), [0.1, None, math.inf, 3, -0.0]),
    (pa.float32(), [0.1, None]),
    (pa.timestamp("us", "UTC"), [datetime(1969, 7, 20, tzinfo=UTC), None]),
    (pa.timestamp("us", "UTC"), [datetime(2026, 3, 1, 0, 0, 0, 1, tzinfo=_EAST)]),
    (pa.list_(pa.string()), [["a", None], None, [], ("b",)]),
    (_PLACE, [("a", [1, None]), None, (None, None), ("b", [])]),
    (pa.list_(_PLACE), [[("a", [1]), None], None, []]),
]


def as_dictionaries(value, kind):
    """Return a value with its structs as pyarrow takes them."""
    if value is not None and pa.types.is_list(kind):
        return [as_dictionaries(each, kind.value_type) for each in value]
    if value is not None and pa.types.is_struct(kind):
        return {f.name: as_dictionaries(v, f.type) for f, v in zip(kind, value, strict=True)}
    return value


@pytest.mark.parametrize(("kind", "values"), CASES, ids=lambda each: str(each)[:20])
@pytest.mark.parametrize("part", [slice(None), slice(0, 0), slice(1, 2)], ids=str)
def test_an_array_is_that_of_pyarrow(kind, values, part):
    made = array_of(values[part], kind)
    made.validate(full=True)
    assert made.type == kind
    assert made.equals(pa.array([as_dictionaries(each, kind) for each in values[part]], kind))


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), 1.5),
        (pa.int32(), 2**31),
        (pa.int64(), "1"),
        (pa.float64(), "one"),
        (pa.string(), 1),
        (pa.timestamp("us", "UTC"), 0),
        (_PLACE, ("a",)),
    ],
)
def test_a_value_of_another_type_is_refused(kind, value):
    with pytest.raises((TypeError, ValueError, OverflowError)):
        array_of([value], kind)


def test_a_table_has_its_schema_and_null_where_a_row_lacks_a_column():
    schema = pa.schema([pa.field("a", pa.int64(), nullable=False), ("b", pa.string())])
    rows = [{"b": "x", "a": 1, "c": 2}, {"a": 2}]
    assert table_of(iter(rows), schema).equals(pa.Table.from_pylist(rows, schema))
    assert table_of([], schema).equals(schema.empty_table())


def test_rows_are_made_and_put_together_without_pandas():
    made = (
        "import sys, pyarrow as pa\n"
        "from catalog.store.segments import joined\n"
        "from catalog.store.staging import score_rows\n"
        "score_rows(joined([]).batches)\n"
        "print('pandas' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", made], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
