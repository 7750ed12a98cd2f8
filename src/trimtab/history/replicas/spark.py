"""The replay as a Spark job: one task for each scenario, because each plan depends on the one before."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np

from trimtab.history.replicas.load_series import LoadSeries, load_series
from trimtab.history.replicas.replay import (
    PlanningScenario,
    ReplicaMetricSpec,
    ReplicasReplayEffect,
    ScenarioTrace,
    effects_of,
    trace_scenario,
)
from trimtab.history.tasks import run_tasks
from trimtab.model.errors import PlanError
from trimtab.model.load import FloatArray
from trimtab.model.replicas.settings import DISK
from trimtab.observe.lake.columns import SECOND

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trimtab.history.replicas.recording import LoadRecording, ReplayPeriod


@dataclass(frozen=True, eq=False)
class ScenarioComparison:
    """Scenarios side by side.

    Attributes
    ----------
    measured_by
        The metric definition of all scenarios.
    held_bytes
        Bytes of all replicas, the mean over the steps: what a copy of everything would take.
    effects
        By name, in the order asked for.
    errors
        How far off what was expected a day ahead was (`TrendReport.errors`), shape (resources,) each; empty
        without profiles.
    """

    measured_by: ReplicaMetricSpec
    held_bytes: float
    effects: Mapping[str, ReplicasReplayEffect]
    errors: Mapping[str, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _ScenarioTask:
    """One scenario to simulate on an executor."""

    name: str
    load_series: LoadSeries
    scenario: PlanningScenario

    def run(self) -> tuple[bytes, list[str]]:
        """Simulate the scenario and return its trace as bytes."""
        try:
            trace = trace_scenario(self.load_series, self.scenario)
        except PlanError as error:
            raise PlanError(f"{self.name}: {error}") from None
        return trace_bytes(trace), []


def compare_on_spark(
    session: SparkSession,
    recording: LoadRecording,
    period: ReplayPeriod,
    scenarios: Mapping[str, PlanningScenario],
    measured_by: ReplicaMetricSpec,
    step_seconds: float,
    profile_weeks: int,
) -> ScenarioComparison:
    """The effect of each scenario on recorded loads.

    Parameters
    ----------
    period, step_seconds, profile_weeks
        As for `load_series`.
    scenarios
        By name.
    measured_by
        One metric definition for all.

    Raises
    ------
    TrimtabError
        If the recording is not sound, or a scenario cannot be planned.
    """
    course = load_series(session, recording, period, step_seconds, profile_weeks)
    found = run_tasks(session, [_ScenarioTask(name, course, one) for name, one in scenarios.items()])
    traces = {name: trace_from(one) for name, (one, _) in zip(scenarios, found, strict=True)}
    held = np.nan_to_num(course.leader[course.first :, :, DISK]).mean(axis=0)
    factor = course.initial.partitions.replication_factor
    begin = int(course.end[course.first]) - round(course.step_seconds * SECOND)
    errors = {} if course.trend_report is None else course.trend_report.errors(begin, int(course.end[-1]))
    effects = effects_of(session, course, traces, measured_by)
    return ScenarioComparison(measured_by, float(held @ factor), effects, errors)


def trace_bytes(trace: ScenarioTrace) -> bytes:
    """A trace as bytes, for the way from the executor to the driver."""
    buffer = io.BytesIO()
    np.savez(buffer, **{one.name: getattr(trace, one.name) for one in fields(trace)})
    return buffer.getvalue()


def trace_from(data: bytes) -> ScenarioTrace:
    """Read a trace from bytes; the inverse of `trace_bytes`."""
    with np.load(io.BytesIO(data)) as arrays:
        return ScenarioTrace(**{one.name: arrays[one.name] for one in fields(ScenarioTrace)})
