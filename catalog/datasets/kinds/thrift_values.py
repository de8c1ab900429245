"""Values in Thrift's compact protocol, the encoding of what Parquet files state about themselves.

https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
"""

from __future__ import annotations

from typing import Any

#: Kinds of values. The two truths are values of their own, except in lists.
_TRUTHS, _BYTE, _NUMBERS, _FRACTION, _TEXT, _LISTS, _STRUCTURE = (
    (1, 2),
    3,
    (4, 5, 6),
    7,
    8,
    (9, 10),
    12,
)
_DEEPEST = 32
_MOST_VALUES = 4_000_000


def structure(data: bytes) -> tuple[dict[int, Any], int]:
    """Return a structure's values by their fields, and how many bytes it took.

    Parameters
    ----------
    data : bytes
        It, and what comes after it.

    Raises
    ------
    ValueError
        If it is cut off, or damaged.
    """
    reading = _Reading(data)
    try:
        return reading.structure(), reading.at
    except IndexError:
        raise ValueError("what it states about itself is cut off") from None


class _Reading:
    """A place in the bytes that goes on as values are read."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0
        self._depth, self._left = 0, _MOST_VALUES

    def structure(self) -> dict[int, Any]:
        values: dict[int, Any] = {}
        field = 0
        while (head := self._byte()) & 15:
            field = field + (head >> 4) if head >> 4 else self._number()
            kind = head & 15
            values[field] = kind == _TRUTHS[0] if kind in _TRUTHS else self._value(kind)
        return values

    def _value(self, kind: int) -> Any:
        self._left -= 1
        if self._left < 0 or self._depth > _DEEPEST:
            raise ValueError("it states far more about itself than a file of pictures does")
        if kind in _NUMBERS:
            return self._number()
        if kind == _TEXT:
            return self._bytes(self._varint())
        if kind in (*_TRUTHS, _BYTE, _FRACTION):
            return self._bytes(8 if kind == _FRACTION else 1)
        self._depth += 1
        try:
            if kind == _STRUCTURE:
                return self.structure()
            if kind in _LISTS:
                head = self._byte()
                count = head >> 4 if head >> 4 < 15 else self._varint()
                return [self._value(head & 15) for _ in range(count)]
        finally:
            self._depth -= 1
        raise ValueError("what it states about itself is damaged")

    def _byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def _bytes(self, count: int) -> bytes:
        self.at += count
        if self.at > len(self.data):
            raise IndexError
        return self.data[self.at - count : self.at]

    def _number(self) -> int:
        value = self._varint()
        return (value >> 1) ^ -(value & 1)

    def _varint(self) -> int:
        value, shift = 0, 0
        while (byte := self._byte()) & 128:
            value |= (byte & 127) << shift
            shift += 7
            if shift > 63:
                raise ValueError("it states a number of more than 64 bits")
        return value | byte << shift
