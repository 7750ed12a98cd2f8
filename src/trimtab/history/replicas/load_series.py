"""The loads of partitions over time, as recorded, and what was expected of them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import TYPE_CHECKING

import numpy as np
from pyspark.sql import functions as F

from trimtab.model.documents import SnapshotReference
from trimtab.model.load import FloatArray
from trimtab.model.replicas.settings import RESOURCES, load_value
from trimtab.model.replicas.snapshot import LOAD_FORECAST, NO_HOURS, LogDirs, ReplicasSnapshot
from trimtab.observe.lake.columns import SECOND
from trimtab.observe.lake.lake import instant
from trimtab.observe.lake.snapshots import fields_of
from trimtab.observe.replicas.loads import HOURS, METHODS, Backtest, expected_loads
from trimtab.observe.replicas.pipeline import ROLE_LOAD, ReplicasPipelineSettings
from trimtab.observe.replicas.windows import days, hours, profile_errors, profiles, trends
from trimtab.observe.spark.expressions import DAY, HOUR, mean_load
from trimtab_common.errors import InputError

if TYPE_CHECKING:
    import pyarrow
    from pyspark.sql import Column, DataFrame, SparkSession

    from trimtab.history.replicas.recording import LoadRecording, ReplayPeriod


@dataclass(frozen=True, eq=False)
class TrendReport:
    """Trends and profiles, and their errors.

    Attributes
    ----------
    leader, follower
        Shape (hours, partitions, resources), of the hours of the profiles; NaN where there is none.
    end
        Shape (hours,): ends of the hours that errors are known of, ascending, microseconds.
    off
        Shape (hours, ways, resources), as in `Backtest`.
    actual
        Shape (hours, resources).
    """

    leader: FloatArray
    follower: FloatArray
    end: np.ndarray
    off: FloatArray
    actual: FloatArray

    def backtest(self, since: int, until: int) -> Backtest:
        """Of the hours that end after `since`, up to `until`, microseconds."""
        counts = (self.end > since) & (self.end <= until)
        return Backtest(self.off[counts].sum(axis=0), self.actual[counts].sum(axis=0))

    def errors(self, since: int, until: int) -> dict[str, FloatArray]:
        """Errors of hours that end after `since`, up to `until`, as fractions of what came.

        Shape (resources,), by what was expected a day before: the profile, the trend, which of the two was
        chosen by the errors that were known then, and the same hour of that day.
        """
        chosen = self.off[:, 0].copy()
        for row, end in enumerate(self.end.tolist()):
            uses = self.backtest(end - 2 * DAY, end - DAY).trend
            chosen[row, uses] = self.off[row, 1, uses]
        whole = self.backtest(since, until)
        counts = (self.end > since) & (self.end <= until)
        best = replace(whole, off=np.broadcast_to(chosen[counts].sum(axis=0), whole.off.shape))
        return {
            "profile": whole.share[0],
            "with the trend": whole.share[1],
            "as chosen": best.share[0],
            "as the day before": whole.share[2],
        }


def hourly_errors(errors: DataFrame) -> DataFrame:
    """Errors summed by hour; lists are sorted first, because the order of rows is not defined."""

    def summed(column: str, name: str) -> Column:
        counts = reduce(and_, (F.col(f"{one}.{name}").isNotNull() for one in (*METHODS, "actual")))
        values = F.array_sort(F.collect_list(F.when(counts, F.abs(F.col(f"{column}.{name}")))))
        return F.aggregate(values, F.lit(0.0), lambda total, value: total + value).alias(name)

    return errors.groupBy(F.col("window_end").alias("end")).agg(
        *(F.struct(*(summed(way, name) for name in RESOURCES)).alias(way) for way in (*METHODS, "actual"))
    )


_ROLES = ("leader_load", "follower_load")
_Placed = tuple[np.ndarray, FloatArray, FloatArray]


@dataclass(frozen=True, eq=False)
class LoadSeries:
    """Loads over time of the partitions of a snapshot.

    Attributes
    ----------
    initial
        Brokers, partitions, and the placement at the beginning.
    end
        Shape (steps,): when each step ends, microseconds; all steps are as long.
    leader, follower
        Shape (steps, partitions, resources): mean load of each role.
    hour_end
        Shape (hours,): when the hours end of which there are profiles, ascending, microseconds.
    leader_profile, follower_profile
        Shape (hours, partitions, resources); NaN where there is none.
    trend_report
        Trends, and how far off profiles and trends were; None: trends are not looked at.
    first
        The first step that is replayed; those before are history.
    """

    initial: ReplicasSnapshot
    end: np.ndarray
    leader: FloatArray
    follower: FloatArray
    hour_end: np.ndarray
    leader_profile: FloatArray
    follower_profile: FloatArray
    first: int = 0
    trend_report: TrendReport | None = None

    @property
    def step_seconds(self) -> float:
        """Length of a step in seconds."""
        return float(self.end[1] - self.end[0]) / SECOND

    def snapshot_at(
        self,
        step: int,
        replicas: np.ndarray,
        leader: np.ndarray,
        windows: int,
        held_seconds: FloatArray | None = None,
    ) -> ReplicasSnapshot:
        """The cluster as a planner sees it after a step: the value of the last steps, and the hours to come.

        Parameters
        ----------
        replicas, leader
            The placement then, as in `Partitions`.
        windows
            Over how many steps the recent load is taken (`trimtab.model.replicas.settings`).
        held_seconds
            As in `Partitions`; None where nobody looks.
        """
        recent = slice(max(0, step - windows + 1), step + 1)
        now = [np.nan_to_num(load_value(one[recent])) for one in (self.leader, self.follower)]
        end = int(self.end[step])
        backtest = None if self.trend_report is None else self.trend_report.backtest(end - DAY, end)
        coming = self._forecast(end, now[0], now[1], backtest)
        parts = replace(
            self.initial.partitions,
            replicas=replicas,
            leader=leader,
            leader_load=now[0],
            follower_load=now[1],
            leader_forecast=coming[0],
            follower_forecast=coming[1],
            held_seconds=np.zeros((0, 0)) if held_seconds is None else held_seconds,
        )
        # The forecast of the recorded snapshot is of another time.
        extra = [one for one in self.initial.quality.extra if one[0] != LOAD_FORECAST]
        if backtest is not None and backtest.actual.any():
            extra.append((LOAD_FORECAST, {"backtest": backtest.document()}))
        quality = replace(self.initial.quality, extra=tuple(extra))
        at = instant(end).isoformat().replace("+00:00", "Z")
        reference = SnapshotReference(self.initial.reference.cluster, at, f"{step:064x}")
        return replace(self.initial, reference=reference, partitions=parts, quality=quality)

    def _forecast(
        self, now: int, leader: FloatArray, follower: FloatArray, backtest: Backtest | None
    ) -> tuple[FloatArray, FloatArray]:
        first = -(-now // HOUR) * HOUR + HOUR
        wanted = first + np.arange(HOURS) * HOUR
        place = np.searchsorted(self.hour_end, wanted)
        known = place < len(self.hour_end)
        known[known] = self.hour_end[place[known]] == wanted[known]
        if not known.any():
            return NO_HOURS, NO_HOURS

        def at_hand(hourly: FloatArray) -> FloatArray:
            one = np.full((hourly.shape[1], HOURS, hourly.shape[2]), np.nan)
            one[:, known] = hourly[place[known]].transpose(1, 0, 2)
            return one

        profile = [at_hand(one) for one in (self.leader_profile, self.follower_profile)]
        if self.trend_report is None or backtest is None:
            raised, uses = profile, np.zeros(len(RESOURCES), dtype=np.bool_)
        else:
            raised = [at_hand(one) for one in (self.trend_report.leader, self.trend_report.follower)]
            uses = backtest.trend
        return (
            expected_loads(profile[0], raised[0], leader, uses),
            expected_loads(profile[1], raised[1], follower, uses),
        )


def load_series(
    session: SparkSession,
    recording: LoadRecording,
    period: ReplayPeriod,
    step_seconds: float,
    profile_weeks: int,
) -> LoadSeries:
    """The loads of a recording, step by step, and profiles, by Spark.

    Parameters
    ----------
    period
        What is replayed.
    step_seconds
        Length of a step: loads are means over it, and placements stay within it.
    profile_weeks
        As in `[pipeline]`; 0: no profiles.

    Raises
    ------
    InputError
        If there are fewer than two steps in that period.
    """
    begun = recording.initial_snapshot(session)
    loads = recording.loads(session).cache()
    weekly = ReplicasPipelineSettings(profile_weeks=profile_weeks)
    try:
        steps = _placed(_steps(loads, round(step_seconds * SECOND)).toArrow(), begun)
        hourly = _placed(None, begun)
        told = None
        if profile_weeks:
            hourly, told = _expected(loads, begun, weekly)
    finally:
        loads.unpersist()
    begin = 0 if period.since is None else round(period.since.timestamp() * SECOND)
    until = 2**62 if period.until is None else round(period.until.timestamp() * SECOND)
    kept = steps[0] <= until
    first = int((steps[0] <= begin).sum())
    if kept.sum() - first < 2:
        raise InputError(
            f"{recording.name}: holds {max(0, int(kept.sum()) - first)} steps of {step_seconds:g} s in that "
            "period, expected two or more; widen --since and --until, or shorten --step"
        )
    empty = np.zeros(0, dtype=np.int32)
    nowhere = LogDirs(empty, (), empty.astype(np.int8), np.zeros(0))
    begun = replace(begun, log_dirs=nowhere)
    return LoadSeries(begun, steps[0][kept], steps[1][kept], steps[2][kept], *hourly, first, told)


def _steps(loads: DataFrame, step: int) -> DataFrame:
    end = F.timestamp_micros((F.ceil(F.unix_micros("window_end") / step) * step).cast("bigint"))
    return (
        loads.withColumn("end", end)
        .groupBy("end", "topic", "partition")
        .agg(*(mean_load(role, RESOURCES).cast(ROLE_LOAD).alias(role) for role in _ROLES))
    )


def _expected(
    loads: DataFrame, started: ReplicasSnapshot, settings: ReplicasPipelineSettings
) -> tuple[_Placed, TrendReport]:
    """Profiles, trends and the errors of both, by the transformations of the pipeline."""
    attributed = loads.withColumns({"cluster": F.lit(""), "replicas": F.lit(None).cast("array<int>")})
    hourly = hours(attributed).cache()
    profiled = profiles(hourly, settings).cache()
    raised = trends(profiled, days(hourly), settings).cache()
    try:
        end, *profile = _placed(profiled.withColumnRenamed("window_end", "end").toArrow(), started)
        ends, *trend = _placed(raised.withColumnRenamed("window_end", "end").toArrow(), started)
        errors = hourly_errors(profile_errors(profiled, raised, hourly)).toArrow().sort_by("end")
    finally:
        for frame in (raised, profiled, hourly):
            frame.unpersist()
    beside = [np.full_like(one, np.nan) for one in profile]
    for one, other in zip(beside, trend, strict=True):
        one[np.searchsorted(end, ends)] = other
    sums = {way: fields_of(errors, way, RESOURCES) for way in (*METHODS, "actual")}
    off = np.stack([sums[way] for way in METHODS], axis=1)
    told = TrendReport(beside[0], beside[1], errors["end"].cast("int64").to_numpy(), off, sums["actual"])
    return (end, profile[0], profile[1]), told


def _placed(rows: pyarrow.Table | None, snapshot: ReplicasSnapshot) -> _Placed:
    """Rows as arrays: the ends, ascending and evenly spaced, and the loads of both roles at each of them.

    NaN where nothing is told; of partitions that the snapshot does not know, nothing is kept.
    """
    parts = snapshot.partitions
    number = {
        (parts.topics[topic], one): row
        for row, (topic, one) in enumerate(zip(parts.topic.tolist(), parts.number.tolist(), strict=True))
    }
    shape = (len(number), len(RESOURCES))
    if rows is None or not rows.num_rows:
        return np.zeros(0, dtype=np.int64), np.zeros((0, *shape)), np.zeros((0, *shape))
    ends = rows["end"].cast("int64").to_numpy()
    every = np.unique(ends)
    apart = int(np.diff(every).min(initial=HOUR))
    every = np.arange(every[0], every[-1] + 1, apart)
    topics = rows["topic"].combine_chunks().dictionary_encode()
    names = topics.dictionary.to_pylist()
    keys = zip(topics.indices.to_pylist(), rows["partition"].to_pylist(), strict=True)
    place = np.array([number.get((names[topic], one), -1) for topic, one in keys], dtype=np.int64)
    at = (ends - every[0]) // apart
    told = []
    for role in _ROLES:
        load = np.full((len(every), *shape), np.nan)
        load[at[place >= 0], place[place >= 0]] = fields_of(rows, role, RESOURCES)[place >= 0]
        told.append(load)
    return every, told[0], told[1]
