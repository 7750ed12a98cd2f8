"""The replay as a Spark job: loads and measures by Spark, every scenario a task, since plan follows plan."""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING

import numpy as np

from trimtab.history.replicas.course import Course, course_of
from trimtab.history.replicas.effect import Effect, Ruler, effects_of
from trimtab.history.replicas.replay import Scenario, Trace, replayed
from trimtab.history.tasks import run_tasks
from trimtab.model.errors import PlanError
from trimtab.model.load import FloatArray
from trimtab.model.replicas.resources import DISK
from trimtab.observe.columns import SECOND

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trimtab.history.replicas.recording import Period, Recording


@dataclass(frozen=True, eq=False)
class Comparison:
    """Scenarios side by side.

    Attributes
    ----------
    measured_by
        The ruler of all.
    held_bytes
        Bytes of all replicas, the mean over the steps: what a copy of everything would take.
    effects
        By name, in the order asked for.
    errors
        How far off what was expected a day ahead was (`TrendsTold.errors`), shape (resources,) each; empty
        without profiles.
    """

    measured_by: Ruler
    held_bytes: float
    effects: Mapping[str, Effect]
    errors: Mapping[str, FloatArray] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class _Task:
    """One scenario."""

    name: str
    course: Course
    scenario: Scenario

    def run(self) -> tuple[bytes, list[str]]:
        """Its trace, as bytes."""
        try:
            trace = replayed(self.course, self.scenario)
        except PlanError as error:
            raise PlanError(f"{self.name}: {error}") from None
        return trace_bytes(trace), []


def compare_on_spark(
    session: SparkSession,
    recording: Recording,
    period: Period,
    scenarios: Mapping[str, Scenario],
    measured_by: Ruler,
    step_seconds: float,
    profile_weeks: int,
) -> Comparison:
    """The effect of each scenario on recorded loads.

    Parameters
    ----------
    period, step_seconds, profile_weeks
        As for `course_of`.
    scenarios
        By name.
    measured_by
        One ruler for all.

    Raises
    ------
    TrimtabError
        If the recording is not sound, or a scenario cannot be planned.
    """
    course = course_of(session, recording, period, step_seconds, profile_weeks)
    found = run_tasks(session, [_Task(name, course, one) for name, one in scenarios.items()])
    traces = {name: trace_from(one) for name, (one, _) in zip(scenarios, found, strict=True)}
    held = np.nan_to_num(course.leader[course.first :, :, DISK]).mean(axis=0)
    factor = course.begun.partitions.replication_factor
    begin = int(course.end[course.first]) - round(course.step_seconds * SECOND)
    errors = {} if course.told is None else course.told.errors(begin, int(course.end[-1]))
    effects = effects_of(session, course, traces, measured_by)
    return Comparison(measured_by, float(held @ factor), effects, errors)


def trace_bytes(trace: Trace) -> bytes:
    """A trace on its way home from a task."""
    buffer = io.BytesIO()
    np.savez(buffer, **{one.name: getattr(trace, one.name) for one in fields(trace)})
    return buffer.getvalue()


def trace_from(data: bytes) -> Trace:
    """The inverse of `trace_bytes`."""
    with np.load(io.BytesIO(data)) as arrays:
        return Trace(**{one.name: arrays[one.name] for one in fields(Trace)})
