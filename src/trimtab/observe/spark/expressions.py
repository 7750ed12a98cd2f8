"""Column expressions that the transformations of all balancers share, and frames of a few rows made here."""

from __future__ import annotations

from functools import reduce
from inspect import signature
from operator import or_
from typing import TYPE_CHECKING, Any, Final, cast

from pyspark.sql import functions as F

from trimtab.observe.lake.columns import NO_RATE, SECOND, STATISTICS, SampleFlag

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from trimtab.observe.lake.balancer_pipeline import PipelineSettings
    from trimtab.observe.lake.columns import Columns
    from trimtab.observe.lake.manifest import Ranges


def conform(frame: DataFrame, columns: Columns) -> DataFrame:
    """The last `select` of every transformation: exactly these columns, in this order, of these types."""
    # As text: a column made here by three calls costs nine messages to the JVM and back, a text one.
    return frame.selectExpr(*(f"cast(`{name}` as {kind}) as `{name}`" for name, kind in columns))


def frame_of(session: SparkSession, rows: Sequence[tuple[object, ...]], form: str) -> DataFrame:
    """A frame of a few rows that are here, of a schema in Spark's text form.

    From an Arrow table: from Python's own rows Spark would start a Python on every executor.
    """
    import pyarrow
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    schema = cast("StructType", StructType.fromDDL(form))
    # PySpark 4.1 knows no other zone.
    zone: dict[str, Any] = {"timezone": "UTC"} if "timezone" in signature(to_arrow_schema).parameters else {}
    arrow = to_arrow_schema(schema, **zone)
    columns = zip(*rows, strict=True) if rows else [()] * len(arrow)
    arrays = [pyarrow.array(list(values), field.type) for values, field in zip(columns, arrow, strict=True)]
    made: DataFrame = session.createDataFrame(pyarrow.Table.from_arrays(arrays, schema=arrow), schema)
    return made


def is_in_ranges(time_column: str, ranges: Ranges) -> Column:
    """True if the time of a row lies in some half-open ranges of microseconds."""
    time = F.col(time_column)

    def literal(value: int) -> Column:
        return F.timestamp_micros(F.lit(value))

    inside = [(time >= literal(begin)) & (time < literal(end)) for begin, end in ranges]
    return reduce(or_, inside, F.lit(False))


def is_inside(time_column: str, ranges: Ranges) -> Column:
    """The same for rows that are made here: slower where files could be passed over, never compiled anew.

    Spark writes plain literals into the code that it generates, so that every micro-batch would compile a
    query of its own; the array of all bounds is handed to the code as a value.
    """
    if not ranges:
        return F.lit(False)
    bounds = F.array(*(F.lit(bound).cast("bigint") for both in ranges for bound in both))
    time = F.unix_micros(time_column)
    # Always 0, which Spark does not see: otherwise it would put the bounds themselves in their place.
    zero = (time % F.lit(1)).cast("int")
    inside = [
        (time >= F.get(bounds, zero + F.lit(2 * place))) & (time < F.get(bounds, zero + F.lit(2 * place + 1)))
        for place in range(len(ranges))
    ]
    return reduce(or_, inside)


def flag_if(condition: Column, flag: SampleFlag) -> Column:
    """The flag's bit where the condition holds, else 0; to be joined by `bitwiseOR`."""
    return F.when(condition, F.lit(int(flag))).otherwise(F.lit(0))


def is_flagged(flags: SampleFlag) -> Column:
    """True if any of the flags is set in the row's column `flags`."""
    return F.col("flags").bitwiseAND(int(flags)) != 0


def is_valid_interval() -> Column:
    """True if an interval tells a rate."""
    return ~is_flagged(NO_RATE)


def scaled(name: str) -> Column:
    """A change, scaled from the time between its two samples to the time between their ticks.

    Rounded to a whole number, so that partitions, groups and brokers add up alike in any order; null where
    the interval is not sound.
    """
    interval = F.unix_micros("tick") - F.unix_micros("previous_tick")
    return F.when(is_valid_interval(), F.round(F.col(name) * (interval / F.col("elapsed_us")))).cast("bigint")


_SHARES: Final = (0.5, 0.95, 0.99)


def with_window_ends(rows: DataFrame, settings: PipelineSettings) -> DataFrame:
    """Each row once for every window that its tick lies in."""
    slide = settings.slide
    first = (F.ceil(F.unix_micros("tick") / slide) * slide).cast("bigint")
    if settings.window == slide:
        return rows.withColumn("window_end", F.timestamp_micros(first))
    ends = F.array(*(F.timestamp_micros(first + step) for step in range(0, settings.window, slide)))
    return rows.withColumn("window_end", F.explode(ends))


def coverage(elapsed: Column, settings: PipelineSettings) -> Column:
    """Share of a window that intervals of so many microseconds cover, null counting as nothing; at most 1."""
    covered = F.coalesce(F.sum(elapsed), F.lit(0)) / settings.window
    return F.least(covered, F.lit(1.0))


def statistics(value: Column, mean: Column) -> Column:
    """What the statistics of a value over a window are made of; null where no tick has it.

    `with_statistics` makes them of it. The mean is an aggregate of its own: whoever knows what the ticks
    weigh takes it.
    """
    latest = F.max_by(value, F.when(value.isNotNull(), F.col("tick")))
    ordered = F.sort_array(F.collect_list(value))
    fields = F.struct(mean.alias("mean"), latest.alias("latest"), ordered.alias("ordered"))
    return F.when(F.count(value) > 0, fields)


def with_statistics(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Rows whose columns of `statistics` have become statistics.

    Percentiles are those of Spark's `percentile`, to the bit. That function runs in the JVM, where it keeps a
    map for each column and group; a native one of a single share reserves 1.6 GB a task for an hour of 2,000
    partitions. As text and step by step, since each step names the values of the one before several times.
    """
    places, values, made = {}, {}, {}
    for name in names:
        last = f"(size({name}.ordered) - 1)"
        shares = []
        for share in _SHARES:
            place = f"_{name}_{round(100 * share)}"
            low, high = f"{place}_low", f"{place}_high"
            places[place] = f"{last} * {share}D"
            values[low] = f"get({name}.ordered, cast(floor({place}) as int))"
            values[high] = f"get({name}.ordered, cast(ceil({place}) as int))"
            between = f"(ceil({place}) - {place}) * {low} + ({place} - floor({place})) * {high}"
            shares.append(f"if(ceil({place}) = floor({place}) or {low} = {high}, {low}, {between})")
        fields = [f"{name}.mean", f"{name}.latest", *shares, f"get({name}.ordered, {last})"]
        made[name] = f"if({name} is null, null, {_struct(STATISTICS, fields)})"
    kept = [name for name in rows.columns if name not in made]
    return (
        rows.selectExpr("*", *_aliased(places))
        .selectExpr("*", *_aliased(values))
        .selectExpr(*(f"`{name}`" for name in kept), *_aliased(made))
    )


def _aliased(columns: Mapping[str, str]) -> list[str]:
    return [f"{text} as `{name}`" for name, text in columns.items()]


def _struct(form: str, values: Sequence[str]) -> str:
    """A struct of a type in Spark's text form, whose fields have some values."""
    names = [field.partition(":")[0] for field in form.removeprefix("struct<").removesuffix(">").split(",")]
    fields = ", ".join(f"'{name}', {value}" for name, value in zip(names, values, strict=True))
    return f"named_struct({fields})"


class _CachedJvmClass:
    """A class of the JVM whose members are asked for once."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._found, name)
        setattr(self, name, member)
        return member


def remember_functions(session: SparkSession) -> None:
    """Keep what PySpark asks the JVM for at every column function: which class has them, and which it is.

    The JVM would look through all of its jars, package by package, each time.
    """
    jvm: Any = session.sparkContext._jvm
    for name in ("functions", "org.apache.spark.sql.functions", "PythonUtils"):
        if not isinstance(getattr(jvm, name), _CachedJvmClass):
            setattr(jvm, name, _CachedJvmClass(getattr(jvm, name)))


HOUR: Final = 3600 * SECOND
DAY: Final = 24 * HOUR
WEEK: Final = 7 * DAY

MIN_WEEKS: Final = 2
"""A single week ago says as much of that day as of the hour."""

MIN_DAYS: Final = 2
"""The same of a single day."""


def hour_end(time: Column) -> Column:
    """The end, microseconds, of the hour that a time (microseconds) lies in: (end - 1 h, end]."""
    return (F.ceil(time / HOUR) * HOUR).cast("bigint")


def mean_of_list(values: Column) -> Column:
    """Mean of a list in its order; null where it is empty."""
    total = F.aggregate(values, F.lit(0.0), lambda total, value: total + value)
    return F.when(F.size(values) > 0, total / F.size(values))


def mean_load(load: str, resources: Sequence[str], context: Column | None = None) -> Column:
    """An aggregate: the mean of each field of a column of loads, over the rows that have it (and `where`).

    Over sorted lists: sums of fractions depend on the order, and rows come in any.
    """

    def counted(name: str) -> Column:
        value = F.col(f"{load}.{name}")
        return value if context is None else F.when(context, value)

    return F.struct(*(mean_of_list(F.array_sort(F.collect_list(counted(name)))) for name in resources))
