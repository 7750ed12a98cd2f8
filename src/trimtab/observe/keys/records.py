"""Counts of a topic's records by partition, key group and key, computed by Spark.

Records are counted by partition and key once. The histogram of key groups and the hot keys come out of those
counts, so that the hash is computed once for each distinct key, and no value leaves the brokers but for its
length. Frequent keys are found by Spark's `approx_top_k` over a hash of the key, and counted exactly: no key
stands in the text of a query, which Spark may log.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from trimtab.observe.lake.columns import Row
from trimtab_keys.core.routing import MASK, POSITIVE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SIZE_CLASSES: Final = 32
TRACKED: Final = 10_000
"""Counters of the sketch: a key with more than a ten thousandth of the records is not missed."""
SAMPLED: Final = 200
"""Distinct keys by which the partitioner of producers is told."""
SAMPLED_BYTES: Final = 64


def topic_records(
    session: SparkSession,
    options: Mapping[str, str],
    topic: str,
    begins: Mapping[int, int],
    ends: Mapping[int, int],
    until: float,
) -> DataFrame:
    """`partition`, `offset`, `key`, `bytes`, and `age_seconds` at an instant, by records' timestamps."""

    def offsets(by_partition: Mapping[int, int]) -> str:
        return json.dumps({topic: {str(number): offset for number, offset in by_partition.items()}})

    # Retention may cut the log while it is read: then there is less to count.
    bounds = {"startingOffsets": offsets(begins), "endingOffsets": offsets(ends), "failOnDataLoss": "false"}
    source = session.read.format("kafka").options(**options, **bounds, subscribe=topic).load()
    size = F.coalesce(F.octet_length("key"), F.lit(0)) + F.coalesce(F.octet_length("value"), F.lit(0))
    age = F.lit(until) - F.col("timestamp").cast("double")
    bytes_ = size.cast("bigint").alias("bytes")
    return source.select("partition", "offset", "key", bytes_, age.alias("age_seconds"))


def counted(
    records: DataFrame, groups: int, most: int, recent_seconds: float, passed: Sequence[int] = ()
) -> tuple[dict[int, Row], list[Row], list[tuple[bytes, int]]]:
    """What lies in each partition, and the most frequent keys.

    Parameters
    ----------
    records
        `partition`, `offset`, `key` (bytes, or null), `bytes`, `age_seconds`.
    groups
        Key groups that there are.
    most
        Keys to name.
    recent_seconds
        Records that are older are not recent.
    passed
        Offsets, by partition, below which records were written before the table in force.

    Returns
    -------
    tuple
        By partition `records`, `bytes`, `keyless`, `distinct_keys`, the histograms `groups`, `sizes` and
        `current_groups` (since the table in force), and how many came in the `recent_seconds` since the first
        recent one, that one left out; then `key`, `key_group`, `records` of frequent keys, the most frequent
        first; and up to `SAMPLED` keys since the table in force, each with a partition that it lies in.
    """
    # Size class n: 2**(n-1) bytes or more, below 2**n; 0 for nothing at all.
    size = F.least(F.length(F.regexp_replace(F.bin("bytes"), "^0+", "")), F.lit(SIZE_CLASSES - 1))
    sized = records.withColumn("size", size)
    begins = [F.lit(one) for one in passed]
    before = F.get(F.array(*begins), F.col("partition")) if begins else F.lit(0)
    current = F.coalesce(F.col("offset") >= before, F.lit(True)).cast("bigint")
    recent = F.when(F.col("age_seconds").between(0, recent_seconds), F.col("age_seconds"))
    by_key = sized.groupBy("partition", "key", "size").agg(
        F.count(F.lit(1)).alias("records"),
        F.sum("bytes").alias("bytes"),
        F.sum(current).alias("current_records"),
        F.count(recent).alias("recent_records"),
        F.max(recent).alias("recent_seconds"),
    )
    keys = by_key.groupBy("partition", "key").agg(
        F.sum("records").alias("records"),
        F.sum("bytes").alias("bytes"),
        F.sum("current_records").alias("current_records"),
        F.sum("recent_records").alias("recent_records"),
        F.max("recent_seconds").alias("recent_seconds"),
        F.map_from_entries(F.collect_list(F.struct("size", "records"))).alias("sizes"),
    )
    keys = keys.withColumn("key_group", F.pmod(hash_column(F.col("key")), F.lit(groups)).cast("int"))
    keys = keys.persist()
    try:
        found = _by_partition(keys, groups)
        tops = (
            records.where(F.col("key").isNotNull())
            .select(F.expr(f"approx_top_k(xxhash64(key), {most}, {max(TRACKED, most)})").alias("tops"))
            .collect()
        )
        hashes = [one["item"] for one in tops[0]["tops"] or ()]
        sample = (
            keys.where((F.octet_length("key") <= SAMPLED_BYTES) & (F.col("current_records") > 0))
            .orderBy(F.xxhash64("key"), "partition")
            .limit(SAMPLED)
            .select("key", "partition")
            .collect()
        )
        hot = (
            keys.where(F.xxhash64("key").isin(hashes) & F.col("key").isNotNull())
            .groupBy("key", "key_group")
            .agg(
                F.sum("records").alias("records"),
                F.collect_list(F.struct("partition", "records")).alias("_in"),
            )
            .collect()
        )
    finally:
        keys.unpersist()
    rows: list[Row] = []
    for one in sorted(hot, key=lambda row: (-row["records"], bytes(row["key"])))[:most]:
        for place in sorted(one["_in"]):
            rows.append(
                {
                    "key": one["key"], "key_group": one["key_group"], "partition": place["partition"],
                    "records": place["records"],
                }
            )  # fmt: skip
    return found, rows, [(bytes(one["key"]), one["partition"]) for one in sample]


def _by_partition(keys: DataFrame, groups: int) -> dict[int, Row]:
    found: dict[int, Row] = {}
    rows = keys.groupBy("partition", "key_group").agg(
        F.sum("records").alias("records"),
        F.sum("bytes").alias("bytes"),
        F.count("key").alias("keys"),
        F.sum("current_records").alias("current_records"),
        F.sum("recent_records").alias("recent_records"),
        F.max("recent_seconds").alias("recent_seconds"),
    )
    for row in rows.collect():
        own = found.setdefault(
            row["partition"],
            {"records": 0, "bytes": 0, "keyless": 0, "distinct_keys": 0, "groups": [0] * groups,
             "current_groups": [0] * groups, "sizes": [0] * SIZE_CLASSES, "recent_records": -1,
             "recent_seconds": None},
        )  # fmt: skip
        own["records"] += row["records"]
        own["bytes"] += row["bytes"]
        own["distinct_keys"] += row["keys"]
        own["recent_records"] += row["recent_records"]
        if row["recent_seconds"] is not None:
            own["recent_seconds"] = max(row["recent_seconds"], own["recent_seconds"] or 0.0)
        if row["key_group"] is None:
            own["keyless"] += row["records"]
        else:
            own["groups"][row["key_group"]] += row["records"]
            own["current_groups"][row["key_group"]] += row["current_records"]
    for own in found.values():
        own["recent_records"] = max(0, own["recent_records"])
    sizes = keys.select("partition", F.explode("sizes").alias("size", "records"))
    for row in sizes.groupBy("partition", "size").agg(F.sum("records").alias("records")).collect():
        found[row["partition"]]["sizes"][row["size"]] = row["records"]
    return found


SEED: Final = 0x9747B28C
M: Final = 0x5BD1E995


def hash_column(key: Column) -> Column:
    """Murmur2 of a key without its sign, 0 to 2**31 - 1; null for no key.

    Byte for byte `trimtab_keys.core.routing` and the Java client's. Spark has no murmur2. The Java client's
    takes bytes, which `reflect` cannot hand over; a function of Java would need a class in a jar of ours, and
    one of Python a worker that all keys go through. This is arithmetic of Spark's own on the key's
    hexadecimal text: 75 µs a key on two busy cores without compiled queries, so `counted` computes it of
    distinct keys only.
    """
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
