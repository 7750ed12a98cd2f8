"""Plans that hold in every hour of the coming day, beside plans for one hour or the mean: worth and price.

    python experiments/recorded_loads/all_hours.py weeks --since 2026-11-23T00:00 --step 900
    python experiments/recorded_loads/all_hours.py --speed 100000

trimtab has no such plans. Here every (hour, resource) of those asked for is put under `trim` as one more
column that is limited and balanced, as numbers of replicas are; reasons of such plans are left out.
"""

from __future__ import annotations

import argparse
import datetime
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.extend(str(Path(__file__).parents[2] / name) for name in ("tests", "examples"))

import numpy as np

from simulate.instances import lognormal_skew
from trimtab.history.replicas.load_series import load_series
from trimtab.history.replicas.recording import FolderLoadRecording, ReplayPeriod
from trimtab.history.replicas.replay import PlanningScenario, trace_scenario
from trimtab.model.goals import goals_of
from trimtab.model.load import FloatArray, IntArray, imbalance, mean_of
from trimtab.model.replicas.plan import ReplicaReason
from trimtab.model.replicas.settings import CPU, DISK, NETWORK_IN, NETWORK_OUT, RESOURCES, ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot, forecast_usage
from trimtab.plan.replicas import outcome, problem, trim
from trimtab.plan.replicas.problem import LoadCarriers, load_carriers
from trimtab.plan.search.limits import UsageLimits, limits_around

FLOWS = (CPU, NETWORK_IN, NETWORK_OUT)
"""Disks are expected to stay as they are."""
NO_REASON = ReplicaReason("epsilon", None, 0, None, None, None, "")


class Hours(LoadCarriers):
    """Brokers that bear hours of the coming day besides their recent load."""

    hours: IntArray

    @property
    def plain(self) -> bool:
        """Never: hours are further columns."""
        return False

    def load(self, load: FloatArray, replicas: IntArray, leader: IntArray) -> FloatArray:
        """Shape (brokers, columns)."""
        more = np.zeros((len(load), self.use.shape[2] - load.shape[1]))
        for slot in range(replicas.shape[1]):
            holder = replicas[:, slot]
            held = np.flatnonzero(holder >= 0)
            role = (holder[held] == leader[held]).astype(int)
            np.add.at(more, holder[held], self.use[held, role, load.shape[1] :])
        return np.hstack([load, more])

    def widened(self, bare: UsageLimits, borne: FloatArray, share: float) -> UsageLimits:
        """θ and ε of the resource, around the mean of the hour."""
        width = bare.high.shape[1]
        times = (self.use.shape[2] - width) // len(FLOWS)
        capacity = np.tile(self.snapshot.brokers.capacity[:, FLOWS], (1, times))
        counted = np.isfinite(capacity) & self.snapshot.brokers.in_service[:, None]
        goals = goals_of(self.settings, RESOURCES, self.snapshot.quality.nominal_capacity)
        theta, epsilon = (
            np.tile(np.asarray(one)[list(FLOWS)], times) for one in (goals.theta, goals.epsilon)
        )
        idle = np.tile(np.broadcast_to(np.asarray(goals.idle), (len(RESOURCES),))[list(FLOWS)], times)
        mean = mean_of(borne[:, width:], capacity, counted)
        hourly = limits_around(mean, counted, theta, epsilon * share, idle)
        pairs = zip(bare, hourly, strict=True)
        return UsageLimits(*(np.ascontiguousarray(np.hstack(pair)) for pair in pairs))

    def ceiling(self, bare: FloatArray, before: FloatArray, after: FloatArray) -> FloatArray:
        """On the way only the load of now is limited."""
        found = np.full(before.shape, np.inf)
        found[:, : bare.shape[1]] = bare
        return found


@contextmanager
def under_trim(hours: IntArray) -> Iterator[None]:
    """Let plans hold in these hours to come too."""

    def with_hours(
        snapshot: ReplicasSnapshot, settings: ReplicasSettings, use: FloatArray, inverse: FloatArray
    ) -> LoadCarriers:
        usual, parts = load_carriers(snapshot, settings, use, inverse), snapshot.partitions
        roles = [
            one[:, hours][..., list(FLOWS)].reshape(len(use), -1)
            for one in (parts.follower_forecast, parts.leader_forecast)
        ]
        wide = np.ascontiguousarray(np.concatenate([use, np.stack(roles, axis=1)], axis=2))
        more = np.tile(inverse[:, FLOWS], (1, len(hours)))
        whole = np.ascontiguousarray(np.hstack([inverse, more]))
        return Hours(snapshot, settings, usual.hosts, wide, whole, usual.host_row)

    with (
        patch.object(problem, "load_carriers", with_hours),
        patch.object(outcome, "narrator", lambda *_: lambda _: NO_REASON),
    ):
        yield


def busiest(snapshot: ReplicasSnapshot, most: int) -> IntArray:
    """The hours to come in which some broker is fullest in some resource, `most` of them, in order."""
    full = forecast_usage(snapshot)[..., list(FLOWS)].max(axis=(1, 2))
    return np.sort(np.argsort(-full, kind="stable")[:most]).astype(np.int32)


def planner_of(most: int) -> Any:
    """`trim` for so many of the hours to come."""

    def plan(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Any:
        if not snapshot.partitions.hours:
            return trim.plan(snapshot, settings)
        with under_trim(busiest(snapshot, most)):
            return trim.plan(snapshot, settings)

    return plan


def compare(folder: Path, since: str, step_seconds: float, every_seconds: float, chosen: list[str]) -> None:
    """A line for each method to plan, or for those chosen, over a recording."""
    from trimtab.observe.spark.session import SessionSettings, spark_session

    session = spark_session(SessionSettings(large_job=True))
    try:
        period = ReplayPeriod(datetime.datetime.fromisoformat(since).replace(tzinfo=datetime.UTC))
        course = load_series(session, FolderLoadRecording(folder), period, step_seconds, 4)
    finally:
        session.stop()
    every = round(every_seconds / step_seconds)
    recent = ReplicasSettings()
    methods = {load: (trim.plan, replace(recent, load=load)) for load in ("recent", "peak", "forecast")}
    methods |= {f"{most} hours": (planner_of(most), replace(recent, load="forecast")) for most in (3, 24)}
    methods = {name: one for name, one in methods.items() if not chosen or name in chosen}
    brokers = course.initial.brokers
    theta = np.asarray(recent.theta)
    for name, (planner, settings) in methods.items():
        begun = time.perf_counter()
        trace = trace_scenario(course, PlanningScenario(planner, settings, every))
        took = (time.perf_counter() - begun) / max(1, int(trace.plans.sum()))
        usage = np.where(np.isfinite(brokers.capacity), trace.load / brokers.capacity, 0.0)
        above = (usage > theta).any(axis=(1, 2)).sum() * step_seconds / 3600
        measured = [imbalance(load, brokers.capacity, brokers.in_service, RESOURCES) for load in trace.load]
        gamma = float(np.mean([np.nanmax(one.worst_deviation) for one in measured]))
        size = np.nan_to_num(course.leader[course.first :, :, DISK]).mean(axis=0)
        held = float(size @ course.initial.partitions.replication_factor)
        print(
            f"{name:<10} above θ {above:6.2f} h  peak {usage.max():.0%}  γ {gamma:.0%}  "
            f"{len(trace.moves)} replicas, {trace.leaders.sum()} leaders, "
            f"{trace.copied_bytes.sum() / held:.0%} copied, {took:.2f} s a plan",
            flush=True,
        )


def speed(replicas: int) -> None:
    """Processor seconds of a plan by how many hours are put under it; topics have their peak at some hour."""
    snapshot = lognormal_skew(max(6, replicas // 1000), replicas, seed=1)
    parts, chance = snapshot.partitions, np.random.default_rng(1)
    peak = chance.uniform(0, 24, len(parts.topics))[parts.topic]
    course = 1 + 0.5 * np.cos(2 * np.pi * (np.arange(24) - peak[:, None]) / 24)
    leader, follower = (one[:, None] * course[..., None] for one in (parts.leader_load, parts.follower_load))
    for one, now in ((leader, parts.leader_load), (follower, parts.follower_load)):
        one[..., DISK] = now[:, None, DISK]
    snapshot = replace(
        snapshot, partitions=replace(parts, leader_forecast=leader, follower_forecast=follower)
    )
    settings = ReplicasSettings(load="forecast")
    for hours in (0, 3, 24):
        planner = planner_of(hours) if hours else trim.plan
        begun = time.process_time()
        plan = planner(snapshot, settings)
        took = time.process_time() - begun
        print(
            f"{hours:>2} hours: {took:7.2f} s of processor time, {len(plan.moves):,} moves, {plan.verdict}",
            flush=True,
        )


def main() -> None:
    """Compare over a recording."""
    parser = argparse.ArgumentParser()
    parser.add_argument("recording", type=Path, nargs="?")
    parser.add_argument("--since", default="2026-11-23T00:00")
    parser.add_argument("--step", type=float, default=900.0, help="seconds")
    parser.add_argument("--every", type=float, default=4 * 3600.0, help="seconds between two plans")
    parser.add_argument("--method", action="append", help="only this, as '24 hours'; may be repeated")
    parser.add_argument("--speed", type=int, help="replicas of one cluster to plan for, instead")
    given = parser.parse_args()
    if given.speed:
        speed(given.speed)
    else:
        compare(given.recording, given.since, given.step, given.every, given.method or [])


if __name__ == "__main__":
    main()
