"""Murmur2 of keys as a Spark column, byte for byte `trimtab.online.keys.murmur2` and the Java client's.

Spark has no murmur2. The Java client's takes bytes, which `reflect` cannot hand over; a function of Java
would need a class in a jar of ours, and one of Python a worker that all keys go through. This is arithmetic
of Spark's own on the key's hexadecimal text: 75 µs a key on two busy cores without compiled queries, so that
it is asked of distinct keys alone (`reading.counted`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from trimtab.online.keys.murmur2 import MASK, POSITIVE

if TYPE_CHECKING:
    from pyspark.sql import Column

SEED: Final = 0x9747B28C
M: Final = 0x5BD1E995


def hash_column(key: Column) -> Column:
    """The hash without its sign, 0 to 2**31 - 1; null for no key."""
    # Once for all words: Spark would take the whole key out of its row for each, hours for a megabyte.
    return F.when(key.isNotNull(), _let(key, _hashed))


def _hashed(key: Column) -> Column:
    length = F.octet_length(key)
    words, rest = F.shiftright(length, 2), length % 4

    def number(first: Column, places: tuple[int, ...]) -> Column:
        """Bytes as one number, the one that stands last in memory first: little-endian."""
        # Four bytes of the key, and then their text: in a text Spark looks for a place from its beginning.
        text = F.hex(F.substr(key, (first * 4 + 1).cast("int"), F.lit(4)))
        parts = [F.substr(text, F.lit(place), F.lit(2)) for place in places]
        return F.conv(F.concat(*parts), 16, 10).cast("bigint")

    def word(h: Column, at: Column) -> Column:
        mixed = _let(_times(number(at, (7, 5, 3, 1))), lambda k: _times(_shifted(k, 24)))
        return _times(h).bitwiseXOR(mixed)

    begun = F.lit(SEED).bitwiseXOR(length.cast("bigint"))
    at = F.when(words > 0, F.sequence(F.lit(0), words - 1)).otherwise(F.array().cast("array<int>"))
    tail = F.coalesce(number(words, (5, 3, 1)), F.lit(0))
    hashed = _let(
        F.aggregate(at, begun, word),
        lambda h: F.when(rest > 0, _times(h.bitwiseXOR(tail))).otherwise(h),
    )
    stirred = _let(hashed, lambda h: _times(_shifted(h, 13)))
    return _let(stirred, lambda h: _shifted(h, 15).bitwiseAND(F.lit(POSITIVE)))


def _let(value: Column, use: Callable[[Column], Column]) -> Column:
    """A value used several times and computed once: Spark would compute it anew at each place."""
    return F.element_at(F.transform(F.array(value), use), 1)


def _times(value: Column) -> Column:
    """A product of 32 bits; both factors are below 2**32 and 2**31, so that nothing overflows."""
    return (value * F.lit(M)).bitwiseAND(F.lit(MASK))


def _shifted(value: Column, bits: int) -> Column:
    return value.bitwiseXOR(F.shiftright(value, bits))
