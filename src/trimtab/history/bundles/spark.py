"""The replay as a Spark job: a scenario is a task, which reads the recording for itself from its beginning.

A decision rests on all ticks before it, so that a recording cannot be cut in time, but scenarios know nothing
of one another. Every task runs the very code of a local replay, in Python; Spark spreads the tasks over
cores and machines, and runs those again whose machine dies. Recording and decisions are files that every
machine must see under the same path.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec

from trimtab.files.bundles.decisions import decision_folder
from trimtab.history.bundles.compare import PROGRESS_SECONDS, StrategyComparison, run_scenario
from trimtab.history.bundles.effect import MetricSpec
from trimtab.history.bundles.ownership_changes import OwnershipChangeCounter
from trimtab.history.bundles.recording import ReportRecording
from trimtab.history.bundles.replay import ShedderScenario
from trimtab.history.bundles.saved import effect_bytes, effect_from
from trimtab.history.tasks import run_tasks
from trimtab.model.errors import PlanError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class TaskProgress:
    """The progress of a task.

    Attributes
    ----------
    ticks
        How many it has gone through.
    at
        Time of the last, seconds since 1970.
    ended
        Whether that was all.
    """

    ticks: int
    at: float
    ended: bool = False


ProgressListener = Callable[[Mapping[str, TaskProgress]], None]


@dataclass(frozen=True)
class ReplayTask:
    """The work of one task; sent to wherever it runs.

    Attributes
    ----------
    name
        Of the scenario, for messages.
    recording, measured_by, scenario
        As for `replay_on_spark`; no scenario moves nothing.
    decisions
        The file for them.
    progress
        The file to leave word in of how far it is; where it cannot be written, nobody is told.
    """

    name: str
    recording: ReportRecording
    measured_by: MetricSpec
    scenario: ShedderScenario | None
    decisions: Path | None
    progress: Path

    def run(self) -> tuple[bytes, list[str]]:
        """Do it: the effect as bytes, and what is to be known of the recording, told by the task that moves
        nothing.

        Raises
        ------
        PlanError
            With the scenario's name in front.
        """
        last = TaskProgress(0, 0.0)

        def passed(ticks: int, at: float) -> None:
            nonlocal last
            last = TaskProgress(ticks, at)
            self._report_progress(last)

        seen = OwnershipChangeCounter()
        ticks = self.recording.ticks()
        try:
            found = run_scenario(
                seen.watched(ticks) if self.scenario is None else ticks,
                self.scenario,
                self.measured_by,
                self.decisions,
                passed,
            )
        except PlanError as error:
            raise PlanError(f"{self.name}: {error}") from None
        self._report_progress(replace(last, ended=True))
        return effect_bytes(found), seen.summary()

    def _report_progress(self, status: TaskProgress) -> None:
        with contextlib.suppress(OSError):
            self.progress.write_bytes(msgspec.json.encode(status))


def replay_on_spark(
    session: SparkSession,
    recording: ReportRecording,
    scenarios: Mapping[str, ShedderScenario],
    measured_by: MetricSpec,
    out: Path | None = None,
    received: ProgressListener | None = None,
    warned: Callable[[str], None] | None = None,
) -> StrategyComparison:
    """The effect of each scenario on a recording, a task each; the same to the last bit as by `compare`.

    Parameters
    ----------
    session
        Where tasks run.
    recording
        Files or the lake; every machine must see them under the same path.
    scenarios
        By name.
    measured_by
        One ruler for all.
    out
        Folder for the decisions, a file for each scenario; it appears as a whole or not at all.
    received
        Is told now and then how far each task is that has begun.
    warned
        Is told in the end what whoever reads the decisions should know of the recording.

    Raises
    ------
    TrimtabError
        What a task came upon: a recording that is not sound, a scenario that cannot go on, a folder that
        cannot be written.
    """
    with TemporaryDirectory(prefix="trimtab-replay-") as scratch, decision_folder(out) as file_of:
        standings = {name: Path(scratch) / str(number) for number, name in enumerate(["", *scenarios])}
        tasks = [ReplayTask("nothing moved", recording, measured_by, None, None, standings[""])]
        tasks += [
            ReplayTask(name, recording, measured_by, one, file_of(name), standings[name])
            for name, one in scenarios.items()
        ]
        with _listening({one.name: one.progress for one in tasks}, received):
            (unmoved, sentences), *others = run_tasks(session, tasks)
    if warned is not None:
        for sentence in sentences:
            warned(sentence)
    effects = (effect_from(effect) for effect, _ in others)
    return StrategyComparison(measured_by, effect_from(unmoved), dict(zip(scenarios, effects, strict=True)))


@contextlib.contextmanager
def _listening(statuses: Mapping[str, Path], received: ProgressListener | None) -> Iterator[None]:
    """Tell what tasks leave word of in their files, beside the thread that waits for Spark."""
    if received is None:
        yield
        return
    over = threading.Event()

    def report() -> None:
        found = {}
        for name, path in statuses.items():
            # Not begun, just being written, or on another machine.
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                found[name] = msgspec.json.decode(path.read_bytes(), type=TaskProgress)
        if found:
            received(found)

    def listen() -> None:
        while not over.wait(PROGRESS_SECONDS):
            report()
        report()

    thread = threading.Thread(target=listen, name="replay-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
