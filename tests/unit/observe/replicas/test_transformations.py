"""What the transformations make of single samples; each test is a handful of rows."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from support.small_lake import publish
from trimtab.observe.lake.columns import SampleFlag, ddl
from trimtab.observe.lake.lake import Lake, microseconds
from trimtab.observe.lake.manifest import Manifest, ManifestEntry, Ranges
from trimtab.observe.replicas.brokers import brokers
from trimtab.observe.replicas.pipeline import FORM, ReplicasPipelineSettings
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.traffic import growth, rates, rates_of_one_tick, traffic, traffic_of_one_tick
from trimtab.observe.spark.tables import SparkTables
from trimtab.observe.steps.clean import deduplicated, from_json, typed
from trimtab.observe.steps.step import nearest_tick, span_from, ticks_of, ticks_of_rows

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

START = datetime.datetime(2026, 11, 21, 5, 0, tzinfo=datetime.UTC)
SETTINGS = ReplicasPipelineSettings(lateness_seconds=60, gap_seconds=35, record_size_window_seconds=60)


def sample(tick: int, kind: str, **values: Any) -> dict[str, Any]:
    """One raw row, read and received at once, at a tick of ten seconds."""
    at = START + datetime.timedelta(seconds=10 * tick)
    return {"cluster": "c", "tick": at, "kind": kind, "sampled_at": at, "received_at": at, **values}


def raw(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """Rows with every raw column, absent ones null."""
    full = [tuple(row.get(name) for name, _ in FORM.columns) for row in rows]
    return spark.createDataFrame(full, ddl(FORM.columns))


def rate_rows(spark: SparkSession, rows: list[dict[str, Any]]) -> DataFrame:
    """The same through cleaning and rates."""
    return rates(deduplicated(typed(raw(spark, rows), SETTINGS, FORM), FORM), SETTINGS)


def replica(tick: int, broker: int, size: int, **values: Any) -> dict[str, Any]:
    """The size of one replica of partition t:0, or of another topic's."""
    placed = {"broker": broker, "topic": "t", "partition": 0, "log_dir": "/d"}
    return sample(tick, "replica", size_bytes=size, **(placed | values))


def partition(tick: int, end: int, start: int = 0, **values: Any) -> dict[str, Any]:
    """Partition t:0, or of another topic, led by 1, followed by 2."""
    placed = {"leader": 1, "replicas": [1, 2], "in_sync": [1, 2], "adding": [], "topic": "t", "partition": 0}
    return sample(tick, "partition", start_offset=start, end_offset=end, **(placed | values))


def flow(spark: SparkSession, rows: list[dict[str, Any]]) -> list[Any]:
    """Traffic of partition t:0, tick after tick."""
    changes = rate_rows(spark, rows)
    return traffic(growth(changes), changes, SETTINGS).orderBy("tick").collect()


def test_kinds_of_samples_are_put_in_order_together_or_apart(spark: SparkSession) -> None:
    """A large step makes the same rows as a small one, also where a sample holds what its kind has not."""
    rows = [partition(tick, 10 * tick, in_sync=[1, 2] if tick % 2 else [1]) for tick in range(4)]
    rows += [replica(tick, broker, 100 * tick) for tick in range(4) for broker in (1, 2)]
    rows += [
        sample(tick, "group", group="g", topic="t", partition=0, committed_offset=5 * tick)
        for tick in (0, 2, 3)
    ]
    rows += [sample(tick, "broker", broker=1, cpu_time_ns=7 * tick) for tick in range(4)]
    foreign = {"leader": 2, "end_offset": 3, "in_sync": [2], "committed_offset": 4, "cpu_time_ns": 5}
    rows += [replica(tick, 3, 100 * tick, **(foreign if tick < 2 else {})) for tick in range(4)]
    cleaned = deduplicated(typed(raw(spark, rows), SETTINGS, FORM), FORM)
    small, large = (sorted(map(repr, rates(cleaned, SETTINGS, samples).collect())) for samples in (0, 10**7))
    assert small == large
    assert len(small) == len(rows)
    own = rates(cleaned, SETTINGS, 10**7).where("kind = 'replica'")
    assert own.where("leader is not null or in_sync is not null or records_in is not null").count() == 0
    assert own.where("growth_bytes is not null").count() == 9


@pytest.mark.parametrize("apart_seconds", [10, 50])
def test_one_tick_is_joined_to_the_one_before(spark: SparkSession, apart_seconds: int) -> None:
    """The same rows as by putting samples in order: restarts, clocks, moves, gaps, foreign values."""
    clock = {"sampled_at": START - datetime.timedelta(seconds=1)}
    foreign = {"leader": 2, "end_offset": 3, "in_sync": [2], "committed_offset": 4, "cpu_time_ns": 5}
    ticks = (
        [
            partition(0, 10),
            partition(0, 10, leader=2) | {"topic": None},
            partition(0, 10) | {"topic": "falls"},
            replica(0, 1, 100),
            replica(0, 2, 100, **foreign),
            sample(0, "group", group="g", topic="t", partition=0, committed_offset=5),
            sample(0, "broker", broker=1, cpu_time_ns=7, processors=4.0),
            sample(0, "broker", broker=2, cpu_time_ns=7, bytes_in_total=9),
            sample(0, "broker", broker=3, cpu_time_ns=5, host="gone"),
        ],
        [
            partition(1, 30, in_sync=[1]),
            partition(1, 20, leader=1, adding=[2]) | {"topic": None},
            partition(1, 5) | {"topic": "falls"},
            replica(1, 1, 90),
            replica(1, 2, 170, **foreign),
            sample(1, "group", group="g", topic="t", partition=0, committed_offset=8),
            sample(1, "broker", broker=1, cpu_time_ns=17, processors=2.0) | clock,
            sample(1, "broker", broker=2, cpu_time_ns=19, bytes_in_total=3),
            sample(1, "topic_broker", broker=2, topic="t", bytes_in_total=3),
        ],
    )
    at = START + datetime.timedelta(seconds=apart_seconds)
    rows = [*ticks[0], *(row | {"tick": at, "received_at": at} for row in ticks[1])]
    cleaned = deduplicated(typed(raw(spark, rows), SETTINGS, FORM), FORM).cache()
    now, before = cleaned.where(F.col("tick") == at), cleaned.where(F.col("tick") == START)
    found = rates_of_one_tick(now, before, SETTINGS)
    expected = rates(cleaned, SETTINGS).where(F.col("tick") == at)
    assert found.schema == expected.schema
    assert sorted(map(repr, found.collect())) == sorted(map(repr, expected.collect()))
    assert len({row.flags for row in found.collect()}) == (4 if apart_seconds == 10 else 1)


def test_copies_of_a_sample_become_the_one_received_first(spark: SparkSession) -> None:
    """Three copies, one with another value, one late: the first counts, all are counted, in any order."""
    first = sample(0, "broker", broker=1, processors=4.0)
    second = first | {"processors": 8.0, "received_at": START + datetime.timedelta(seconds=5)}
    late = first | {"processors": 16.0, "received_at": START + datetime.timedelta(seconds=61)}
    for order in ([first, second, late], [late, second, first]):
        (row,) = deduplicated(typed(raw(spark, order), SETTINGS, FORM), FORM).collect()
        assert (row.processors, row.copies, row.late_copies, row.accepted) == (4.0, 3, 1, True)


def test_cleaning_in_parts_equals_cleaning_the_whole(spark: SparkSession) -> None:
    """The stream cleans existing rows first and newer rows later: the result must not depend on the parts."""
    rows = [
        sample(0, "broker", broker=1, processors=float(value))
        | {"received_at": START + datetime.timedelta(seconds=at)}
        for value, at in ((1, 9), (2, 3), (3, 3), (4, 70), (5, 6))
    ]
    at_once = deduplicated(typed(raw(spark, rows), SETTINGS, FORM), FORM).collect()
    kept: list[Any] = []
    for piece in (rows[:2], rows[2:3], rows[3:]):
        stored = spark.createDataFrame(kept, ddl(FORM.cleaned))
        kept = deduplicated(stored.unionByName(typed(raw(spark, piece), SETTINGS, FORM)), FORM).collect()
    assert kept == at_once
    assert at_once[0].copies == 5


def test_ticks_without_copies_are_passed_on(spark: SparkSession) -> None:
    """Only ticks with duplicate samples are ranked; the result is the same."""
    rows = [sample(tick, "broker", broker=broker) for tick in range(3) for broker in range(2)]
    rows += [rows[2] | {"received_at": rows[2]["received_at"] + datetime.timedelta(seconds=1)}]
    typed_rows = typed(raw(spark, rows), SETTINGS, FORM)
    found = ticks_of(typed_rows, FORM)
    assert (found["rows"], len(found["ticks"])) == (7, 3)
    assert found["doubled"] == [found["ticks"][1]]
    gathered = ticks_of_rows(typed_rows.toArrow(), FORM)
    same = ("ticks", "doubled", "received", "rows", "late")
    assert {name: gathered[name] for name in same} == {name: found[name] for name in same}
    doubled = [(found["ticks"][1], found["ticks"][1] + 1)]

    def ordered(frame: DataFrame) -> list[Any]:
        return frame.orderBy("tick", "broker").collect()

    every = ordered(deduplicated(typed_rows, FORM))
    assert [row.copies for row in every] == [1, 1, 2, 1, 1, 1]
    assert ordered(deduplicated(typed_rows, FORM, doubled)) == every
    assert len(ordered(deduplicated(typed_rows, FORM, []))) == 7


def test_a_tick_suffices_if_no_entity_has_skipped_it(spark: SparkSession, tmp_path: Path) -> None:
    """Replicas that came or went are no reason to look further back; one that was not told once is."""
    brokers = {0: (0, 1, 2), 1: (0, 1), 2: (0, 1, 3), 3: (0, 2), 4: (0, 3), 9: (0, 1, 4)}
    parts = [
        [sample(tick, "broker", broker=broker, accepted=tick != 4 or broker != 3) for broker in members]
        for tick, members in brokers.items()
    ]
    at = [microseconds(part[0]["tick"]) for part in parts]

    def suffices(stored: int, *new: int) -> int | None:
        """The number of the tick that suffices for some new ticks."""
        lake = publish(tmp_path / f"{stored}-{new}", {"cleaned": parts[:stored]})
        rows = [row for place in new for row in parts[place]]
        names = [name for name, _ in FORM.cleaned]
        frame = spark.createDataFrame(
            [tuple(row.get(name) for name in names) for row in rows], ddl(FORM.cleaned)
        )
        found = {"ticks": [at[place] for place in new], "entities": {}}
        nearest = nearest_tick(SparkTables(spark, lake, lake.manifest()), frame, found, None, SETTINGS)
        return None if nearest is None else at.index(nearest)

    assert suffices(1, 1) == 0, "one is gone"
    assert suffices(2, 2) == 1, "one was added"
    assert suffices(3, 3) is None, "broker 2 was there before, but not then"
    assert suffices(4, 4) == 3, "a sample that does not count has skipped nothing"
    assert suffices(5, 5) == 4, "broker 1 was last seen longer ago than a rate may span"
    assert suffices(1, 1, 2) is None, "of several ticks nothing is known"
    assert suffices(2, 1) is None, "not after the newest"


@pytest.mark.parametrize("is_gathered", [False, True])
def test_the_previous_tick_suffices_if_it_has_the_same_entities(
    spark: SparkSession, tmp_path: Path, is_gathered: bool
) -> None:
    """A micro-batch reads no further back than necessary, and further if some entity was missing then."""
    brokers = {0: (0, 1, 2), 1: (0, 1, 2), 2: (0, 1), 3: (0, 1), 4: (1, 2), 5: (0, 1)}
    rows = [
        sample(tick, "broker", broker=broker, cpu_time_ns=100 * tick + broker)
        for tick, members in brokers.items()
        for broker in members
    ]
    late = rows[-1] | {"received_at": rows[-1]["received_at"] + datetime.timedelta(days=1)}
    rows[-1] = late
    every = typed(raw(spark, rows), SETTINGS, FORM).cache()
    found = ticks_of_rows(every.toArrow(), FORM) if is_gathered else ticks_of(every, FORM)
    ticks = found["ticks"]

    def only(*numbers: int) -> dict[str, Any]:
        return {
            "ticks": [ticks[n] for n in numbers],
            "entities": {ticks[n]: found["entities"][ticks[n]] for n in numbers},
        }

    class Unread(SparkTables):
        def read(self, table: str, ranges: Ranges) -> DataFrame:
            raise LookupError(table)

    def nearest(seen: int, *new: int, newest: int | None = None) -> int | str | None:
        """The number of the tick that suffices, or that a query would be run."""
        last = ticks[seen if newest is None else newest]
        entry = ManifestEntry("one", ticks[0], last + 1, ticks[0], last)
        tables = Unread(spark, Lake(tmp_path, REPLICAS), Manifest(tables={"cleaned": (entry,)}))
        known = ticks[seen], found["entities"][ticks[seen]]
        try:
            at = nearest_tick(tables, every, only(*new), known, SETTINGS)
        except LookupError:
            return "by a query"
        return None if at is None else ticks.index(at)

    assert nearest(2, 3) == 2
    assert nearest(0, 1) == 0
    assert nearest(1, 2) == "by a query", "one is gone"
    assert nearest(3, 4) == "by a query", "as many, but others: broker 2 was there at tick 1"
    assert nearest(4, 5) == "by a query", "a late sample does not count"
    assert nearest(2, 3, 4) is None, "all of them must be alike"
    assert nearest(2, 3, newest=3) is None, "more of a tick that is in the tables"
    assert nearest(1, 3, newest=2) == "by a query", "another stream was here"
    nothing = SparkTables(spark, Lake(tmp_path, REPLICAS), Manifest())
    assert nearest_tick(nothing, every, only(0), None, SETTINGS) is None

    def changes(frame: DataFrame) -> list[Any]:
        at_three = F.unix_micros("tick") == ticks[3]
        return rates(frame, SETTINGS).where(at_three).orderBy("broker").collect()

    whole, near = changes(every), changes(every.where(F.unix_micros("tick").between(ticks[2], ticks[3])))
    assert near == whole
    assert [row.cpu_ns for row in near] == [100, 100]


def test_a_micro_batch_yields_the_same_rows_as_history(spark: SparkSession) -> None:
    """It sums up the time before instead of ordering it: the same rows, also where ticks go out of sight in
    its midst, the log was cut, nothing was taught yet, or a topic has no name.
    """
    rows = []
    for tick in range(10):
        size = 5000 + 1000 * tick + 37 * tick**2 - (3000 if tick > 5 else 0)
        rows += [replica(tick, broker, size) for broker in (1, 2)]
        rows += [partition(tick, end=10 * tick + tick**2, start=20 if tick > 5 else 0)]
        rows += [partition(tick, end=5 * tick) | {"topic": None}]
        rows += [partition(tick, end=7) | {"topic": "new"}] if tick > 7 else []
        read = {"group": "g", "topic": "t", "partition": 0, "committed_offset": 9 * tick}
        rows += [sample(tick, "group", **read)] if tick not in (6, 9) else []
    changes = rate_rows(spark, rows).cache()
    grown = growth(changes).cache()
    every = traffic(grown, changes, SETTINGS).collect()
    assert len({row.bytes_per_record for row in every}) > 5

    def at(tick: int) -> datetime.datetime:
        return START + datetime.timedelta(seconds=10 * tick)

    for first, last in ((0, 0), (9, 9), (6, 9), (1, 7)):
        now = grown.where(F.col("tick").between(at(first), at(last)))
        before = grown.where(F.col("tick") < at(first))
        span = microseconds(at(first)), microseconds(at(last))
        found = traffic(now, changes, SETTINGS, before, span).where(F.col("tick") >= at(first)).collect()
        low, high = (at(tick).replace(tzinfo=None) for tick in (first, last))
        expected = sorted(repr(row) for row in every if low <= row.tick <= high)
        assert sorted(map(repr, found)) == expected
        if first == last:
            own = changes.where(F.col("tick") == at(first))
            learned = before.where(F.col("tick") > at(first - 6))
            recent = before.where(F.col("tick") >= at(first) - datetime.timedelta(seconds=35))
            assert sorted(map(repr, traffic_of_one_tick(now, learned, recent, own).collect())) == expected


def test_a_span_holds_every_row_that_counts() -> None:
    """Rows may lie where a folder counts and has rows; what lies before is not to be made."""

    def span(*entries: tuple[int, int, int, int]) -> tuple[int, int] | None:
        tables = {"growth": tuple(ManifestEntry("", *entry) for entry in entries)}
        return span_from(Manifest(tables=tables), ["growth", "rates"], 7)

    before, now = (0, 7, 3, 6), (7, 8, 7, 7)
    assert span(before) is None
    assert span(before, now) == (7, 7)
    assert span(before, (7, 99, 8, 8)) == (8, 8)
    assert span(before, now, (8, 10, 8, 12)) == (7, 9)
    assert span((0, 99, 3, 8)) == (7, 8)


def test_dirt_is_flagged_and_never_passed_on(spark: SparkSession) -> None:
    """NaN and negative values become missing; rows without a key are set aside, all with a flag."""
    rows = [
        sample(0, "broker", broker=1, processors=float("nan"), cpu_time_ns=5),
        sample(0, "broker", broker=2, processors=float("inf"), cpu_time_ns=-5),
        sample(0, "group", group="g", topic="t", partition=0, committed_offset=-1),
        sample(0, "weather", broker=3),
    ]
    found = {(row.kind, row.broker): row for row in typed(raw(spark, rows), SETTINGS, FORM).collect()}
    one, two = found[("broker", 1)], found[("broker", 2)]
    assert (one.processors, one.cpu_time_ns, one.flags) == (None, 5, SampleFlag.NOT_A_NUMBER)
    assert (two.processors, two.cpu_time_ns, two.flags) == (
        None,
        None,
        SampleFlag.NOT_A_NUMBER | SampleFlag.NEGATIVE,
    )
    group = found[("group", None)]
    assert (group.committed_offset, group.flags, group.accepted) == (None, 0, True), (
        "-1 is Kafka's own word for none"
    )
    assert (found[("unreadable", 3)].flags, found[("unreadable", 3)].accepted) == (
        SampleFlag.UNREADABLE,
        False,
    )


def test_json_that_is_none_is_counted_as_unreadable(spark: SparkSession) -> None:
    """A stray record in the topic does not end the stream and does not vanish."""
    records = spark.createDataFrame(
        [
            (
                b'{"cluster":"c","tick":"2026-11-21T05:00:00.250000Z","kind":"broker","broker":7,"cpu_time_ns":12}',
                START,
            ),
            (b"not json", START),
        ],
        "value binary, timestamp timestamp",
    )
    good, bad = sorted(typed(from_json(records, FORM), SETTINGS, FORM).collect(), key=lambda row: row.flags)
    assert (good.broker, good.cpu_time_ns, good.flags) == (7, 12, 0)
    assert good.tick.microsecond == 250000
    assert (bad.kind, bad.flags, bad.accepted) == ("unreadable", SampleFlag.UNREADABLE, False)


def test_intervals_that_yield_no_rate(spark: SparkSession) -> None:
    """First sample, restart, hole and a clock that goes back: flagged, and no change is computed."""
    rows = [
        sample(0, "broker", broker=1, cpu_time_ns=100, bytes_in_total=1000),
        sample(1, "broker", broker=1, cpu_time_ns=150, bytes_in_total=1500),
        # The restart: CPU time begins anew although bytes have already passed their old value.
        sample(2, "broker", broker=1, cpu_time_ns=10, bytes_in_total=9000),
        sample(7, "broker", broker=1, cpu_time_ns=90, bytes_in_total=9900),
        sample(8, "broker", broker=1, cpu_time_ns=95, bytes_in_total=9950, sampled_at=START),
        sample(9, "broker", broker=1, cpu_time_ns=99, bytes_in_total=9990),
    ]
    found = rate_rows(spark, rows).orderBy("tick").collect()
    assert [row.flags for row in found] == [
        SampleFlag.GAP,
        0,
        SampleFlag.RESET,
        SampleFlag.GAP,
        SampleFlag.CLOCK_BACK,
        0,
    ]
    assert [row.cpu_ns for row in found] == [None, 50, None, None, None, 4]
    assert [row.bytes_in for row in found] == [None, 500, None, None, None, 40]
    assert found[5].elapsed_us == 90_000_000, "by the reader's clock, which had gone back"


def test_missed_tick_is_distinguished_from_a_slow_collector(spark: SparkSession) -> None:
    """Broker 2 has no sample at a tick where broker 1 has: its next rate spans two ticks and is flagged."""
    rows = [sample(tick, "broker", broker=1, cpu_time_ns=tick) for tick in range(3)]
    rows += [sample(tick, "broker", broker=2, cpu_time_ns=tick) for tick in (0, 2)]
    found = {(row.broker, row.tick): row for row in rate_rows(spark, rows).collect()}
    last = START + datetime.timedelta(seconds=20)
    flags = {
        broker: row.flags
        for (broker, tick), row in found.items()
        if tick.replace(tzinfo=None) == _local(last)
    }
    assert flags == {1: 0, 2: SampleFlag.MISSED}


def test_values_of_another_kind_do_not_count(spark: SparkSession) -> None:
    """A replica has no counters: a falling one next to its size is no restart."""
    rows = [replica(tick, 1, 100 * tick, cpu_time_ns=9 - tick) for tick in range(2)]
    last = rate_rows(spark, rows).orderBy("tick").collect()[-1]
    assert (last.growth_bytes, last.cpu_ns, last.flags) == (100, None, 0)


def test_bytes_in_are_the_largest_growth_of_a_complete_replica(spark: SparkSession) -> None:
    """A follower read earlier shows less; a future replica and one being copied grow by copying, not by
    traffic.
    """
    rows = [partition(tick, 100 * tick, replicas=[1, 2, 3], adding=[3], in_sync=[1, 2]) for tick in range(2)]
    for tick in range(2):
        rows += [replica(tick, 1, 10_000 * tick), replica(tick, 2, 8_000 * tick)]
        rows += [replica(tick, 3, 900_000 * tick), replica(tick, 1, 700_000 * tick, is_future=True)]
    last = flow(spark, rows)[-1]
    assert (last.log_bytes, last.bytes_in, last.size_bytes) == (10_000, 10_000, 10_000)
    assert last.flags & SampleFlag.COPYING


def test_growth_is_the_same_by_lookup_and_by_sorting(spark: SparkSession) -> None:
    """A step may hold too many samples for a lookup in memory: the same rows, also of a topic without a name,
    a partition without replicas, one with only unknown replicas, and one with several groups.
    """
    rows = []
    for tick in range(3):
        rows += [partition(tick, 10 * tick), replica(tick, 1, 1000 * tick), replica(tick, 9, 5000 * tick)]
        rows += [partition(tick, 7 * tick, topic=None), replica(tick, 2, 700 * tick, topic=None)]
        rows += [partition(tick, 3 * tick, topic="alone")]
        rows += [partition(tick, tick, topic="out", in_sync=[]), replica(tick, 1, 60 * tick, topic="out")]
        for group, factor in (("one", 2), ("two", 3)):
            rows += [
                sample(tick, "group", group=group, topic="t", partition=0, committed_offset=factor * tick)
            ]
    changes = rate_rows(spark, rows).cache()
    looked_up = growth(changes).orderBy("topic", "tick").collect()
    in_order = growth(changes, 10**9)
    assert "SortMergeJoin" in in_order._jdf.queryExecution().toString()
    assert in_order.orderBy("topic", "tick").collect() == looked_up
    last = {row.topic: row for row in looked_up[2::3]}
    told = {
        topic: (row.growth_bytes, row.size_bytes, row.records_in, row.records_out, row.flags)
        for topic, row in last.items()
    }
    assert told == {
        None: (700, 1400, 7, None, 0),
        "alone": (None, None, 3, None, 0),
        "out": (None, 120, 1, None, SampleFlag.COPYING),
        "t": (1000, 2000, 10, 5, SampleFlag.COPYING),
    }


def test_cut_log_is_weighed_by_its_records(spark: SparkSession) -> None:
    """Retention removes 50 kB: 100 records of 100 bytes still arrived, flagged as extrapolated."""
    sizes, starts = (60_000, 70_000, 30_000, 40_000), (0, 0, 500, 500)
    rows = [partition(tick, 600 + 100 * tick, starts[tick]) for tick in range(4)]
    rows += [replica(tick, broker, sizes[tick]) for tick in range(4) for broker in (1, 2)]
    found = flow(spark, rows)
    assert [row.log_bytes for row in found] == [None, 10_000, 10_000, 10_000]
    assert [bool(row.flags & SampleFlag.CUT) for row in found] == [False, False, True, False]
    assert [row.extrapolated for row in found] == [False, False, True, False]


def test_leader_counters_are_split_by_weights(spark: SparkSession) -> None:
    """Broker 1 took 40 kB for the topic (compressed to 10 kB on disk) and gave 30 kB to consumers that
    never commit.
    """
    rows = [partition(tick, 100 * tick) for tick in range(2)]
    rows += [replica(tick, broker, 10_000 * tick) for tick in range(2) for broker in (1, 2)]
    counters = [
        sample(
            tick,
            "topic_broker",
            broker=1,
            topic="t",
            bytes_in_total=40_000 * tick,
            bytes_out_total=30_000 * tick,
        )
        for tick in range(2)
    ]
    last = flow(spark, rows + counters)[-1]
    assert (last.log_bytes, last.bytes_in, last.bytes_out) == (10_000, 40_000, 30_000)


def test_counters_and_estimates_are_never_laid_side_by_side(spark: SparkSession) -> None:
    """Broker 2's exporter is unresponsive: both brokers are measured by their logs then, broker
    3 cannot be.
    """
    rows = [partition(tick, 100 * tick) for tick in range(3)]
    rows += [replica(tick, broker, 10_000 * tick) for tick in range(3) for broker in (1, 2)]
    for tick in range(3):
        counters = {"bytes_in_total": 90_000 * tick, "replication_bytes_in_total": 0, "bytes_out_total": 0}
        rows.append(sample(tick, "broker", broker=1, broker_state="alive", **counters))
        silent = {} if tick == 2 else counters
        rows.append(sample(tick, "broker", broker=2, broker_state="alive", **silent))
        rows.append(
            sample(tick, "broker", broker=3, broker_state="unreachable" if tick == 2 else "alive", **silent)
        )
    changes = rate_rows(spark, rows)
    found = brokers(changes, traffic(growth(changes), changes, SETTINGS)).orderBy("tick", "broker").collect()
    told = [(row.leader_bytes_in, row.follower_bytes_in, row.network_measured) for row in found]
    assert told[3:6] == [(90_000, 0, True)] * 3
    assert told[6:] == [(10_000, 0, False), (0, 10_000, False), (None, None, False)]


def topic_counter(tick: int, broker: int, total: int, topic: str = "t") -> dict[str, Any]:
    """A broker's counters of topic t: as much out as in."""
    return sample(
        tick, "topic_broker", broker=broker, topic=topic, bytes_in_total=total, bytes_out_total=total
    )


def test_bytes_of_a_transferred_leadership_are_attributed_to_no_broker(spark: SparkSession) -> None:
    """Broker 1 leads partitions 0 and 1, which receive 10 and 90 kB a tick, until 1 moves to broker 2 within
    the third interval. Broker 1's counter then includes partition 1: partition 0 gets the growth of its
    log, flagged as not counted. Other topics, and the intervals before and after, are counted.
    """
    rows = []
    for tick in range(5):
        moved = 2 if tick >= 3 else 1
        for number, leader, size in ((0, 1, 10_000), (1, moved, 90_000)):
            placed = {"leader": leader, "partition": number}
            rows += [partition(tick, 100 * tick, **placed)]
            rows += [replica(tick, one, size * tick, partition=number) for one in (1, 2)]
        rows += [partition(tick, 100 * tick, topic="u"), replica(tick, 1, 5_000 * tick, topic="u")]
        # Half of the third interval's 90 kB had come before the move.
        of_one = 200_000 * min(tick, 2) + (110_000 if tick >= 3 else 0) + (20_000 if tick >= 4 else 0)
        of_two = (90_000 if tick >= 3 else 0) + (180_000 if tick >= 4 else 0)
        rows += [topic_counter(tick, 1, of_one), topic_counter(tick, 2, of_two)]
        rows += [topic_counter(tick, 1, 7_000 * tick, topic="u")]
    found = {(row.topic, row.partition, row.tick): row for row in flow(spark, rows)}
    ticks = sorted({tick for _, _, tick in found})

    def told(topic: str, number: int) -> list[tuple[int | None, bool]]:
        rows = [found[(topic, number, tick)] for tick in ticks[1:]]
        return [(row.bytes_in, row.counted) for row in rows]

    assert told("t", 0) == [(20_000, True), (20_000, True), (10_000, False), (20_000, True)]
    assert told("t", 1) == [(180_000, True), (180_000, True), (90_000, False), (180_000, True)]
    assert told("u", 0) == [(7_000, True)] * 4


def test_a_counter_that_spans_several_ticks_is_scaled_to_one(spark: SparkSession) -> None:
    """The exporter is away at two ticks: its count of thirty seconds is not the traffic of ten. If a
    leadership had moved meanwhile, the attribution would be unknown.
    """
    for moved in (False, True):
        rows = []
        for tick in range(5):
            rows += [partition(tick, 100 * tick), replica(tick, 1, 10_000 * tick)]
            leader = 2 if moved and tick < 3 else 1
            rows += [partition(tick, 100 * tick, partition=1, leader=leader)]
            rows += [replica(tick, 1, 10_000 * tick, partition=1)]
            if tick in (0, 1, 4):
                rows += [topic_counter(tick, 1, 40_000 * tick)]
        found = [row for row in flow(spark, rows) if row.partition == 0]
        expected = [(20_000, True), (10_000, False), (10_000, False), (20_000, True)]
        if moved:
            expected = [(40_000, True), (10_000, False), (10_000, False), (10_000, False)]
        assert [(row.bytes_in, row.counted) for row in found[1:]] == expected
        if not moved:
            assert found[-1].flags & SampleFlag.MISSED
            assert found[-1].extrapolated


def test_commits_that_are_not_known_are_not_none(spark: SparkSession) -> None:
    """Two groups read everything, 20 kB a tick; the commits of one are missing at a tick, and span two later.
    That tick has no figure, and the next gets no addition. Without and with counters: a partition with
    known commits does not get the other's share.
    """
    for counters in (False, True):
        rows = []
        for tick in range(5):
            for number in (0, 1):
                rows += [partition(tick, 100 * tick, partition=number)]
                rows += [replica(tick, 1, 10_000 * tick, partition=number)]
                for group in ("one", "two"):
                    if (group, number, tick) != ("two", 0, 2):
                        placed = {"topic": "t", "partition": number, "committed_offset": 100 * tick}
                        rows += [sample(tick, "group", group=group, **placed)]
            rows += [topic_counter(tick, 1, 40_000 * tick)] if counters else []
        found = flow(spark, rows)
        for number in (0, 1):
            its = [row for row in found if row.partition == number][1:]
            unknown = [None] if counters or number == 0 else [20_000]
            if counters and number == 1:
                unknown = [20_000]
            assert [row.bytes_out for row in its] == [20_000, *unknown, 20_000, 20_000]
            assert bool(its[1].flags & SampleFlag.MISSED) == (number == 0)
            assert bool(its[2].flags & SampleFlag.MISSED) == (number == 0)


def test_a_copy_that_ends_within_the_interval_is_no_growth(spark: SparkSession) -> None:
    """Broker 3's replica is copied in the second interval and in sync at its end: its growth had existed
    before. A replica last observed during its copy does not count either.
    """
    rows = []
    for tick in range(4):
        placed: dict[str, Any] = {"replicas": [1, 2], "in_sync": [1, 2]}
        if tick == 1:
            placed = {"replicas": [1, 2, 3], "in_sync": [1, 2], "adding": [3]}
        if tick >= 2:
            placed = {"replicas": [1, 3], "in_sync": [1, 3], "adding": []}
        rows += [partition(tick, 100 * tick, **placed), replica(tick, 1, 500_000 + 10_000 * tick)]
        rows += [replica(tick, 3, 100_000)] if tick == 1 else []
        rows += [replica(tick, 3, 500_000 + 10_000 * tick)] if tick >= 2 else []
    found = flow(spark, rows)
    assert [row.log_bytes for row in found[1:]] == [10_000] * 3
    assert found[2].flags & SampleFlag.COPYING


def _local(at: datetime.datetime) -> datetime.datetime:
    """Spark hands instants to Python as naive local time."""
    return at.astimezone().replace(tzinfo=None)
