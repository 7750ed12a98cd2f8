"""Replays on Spark: a task for each strategy, and results in files so that a task can be repeated."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec
import numpy as np

from trimtab.files.bundles.decisions import decision_folder
from trimtab.history.bundles.effect import (
    PROGRESS_SECONDS,
    MetricSpec,
    ReplayEffect,
    StrategyComparison,
    run_scenario,
)
from trimtab.history.bundles.recording import OwnershipChangeCounter, ReportRecording
from trimtab.history.bundles.replay import ReplayedCluster, ReplayState, ShedderScenario, first_state
from trimtab.history.tasks import run_tasks
from trimtab.model.bundles.reports import TRAFFIC
from trimtab.model.errors import PlanError
from trimtab.plan.pulsar.selection import AssignmentState
from trimtab.plan.pulsar.splits import SplitState
from trimtab.plan.pulsar.view import BundleTable, HashMapOrder
from trimtab_common.errors import InputError
from trimtab_common.files import read_bytes, write_atomically

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


FORMAT: Final = "trimtab/bundles-replay-state/1"
_KINDS: Final[dict[str, Any]] = {
    "recently_unloaded": dict[str, float],
    "recently_unloaded_brokers": dict[str, float],
    "world": ReplayedCluster,
    "splits": SplitState,
    "order": HashMapOrder,
    "bundles": BundleTable,
}


def write_state(state: ReplayState, scenario: ShedderScenario, strategy: str, path: Path) -> None:
    """Write the state of a replay atomically.

    Parameters
    ----------
    state
        After some tick.
    scenario, strategy
        What it was replayed with, so that nobody goes on with another by mistake.
    path
        The file to make or replace.
    """
    document = {
        "format": FORMAT,
        "scenario": _identity(scenario, strategy),
        "shedder": state.shedder,
        "assignment": state.assignment,
        "chance": _texts(state.chance),
        **{name: getattr(state, name) for name in _KINDS},
    }
    encoded = msgspec.json.encode(document, enc_hook=_listed)
    write_atomically(path, msgspec.json.format(encoded, indent=0) + b"\n")


def read_state(scenario: ShedderScenario, strategy: str, path: Path) -> ReplayState:
    """Read a state that `write_state` wrote.

    Raises
    ------
    InputError
        If the file is not one of these, or is of a replay with another strategy, seed or option.
    """
    initial = first_state(scenario)
    kinds = {
        **_KINDS,
        "shedder": type(initial.shedder),
        "assignment": cast("Any", AssignmentState)[type(initial.assignment.placement)],
    }
    try:
        document = msgspec.json.decode(read_bytes(path), type=dict[str, Any])
        if document["format"] != FORMAT:
            raise KeyError
        saved, wanted = document["scenario"], _identity(scenario, strategy)
        differing = [name for name in wanted if saved.get(name) != wanted[name]]
        if differing:
            raise InputError(
                f"{path}: is of a replay with another {' and '.join(differing)}; give the same, or begin "
                "anew with another file"
            )
        found = {name: msgspec.convert(document[name], kind, dec_hook=_array) for name, kind in kinds.items()}
        table = found["bundles"]
        shape = (len(table.names), len(TRAFFIC))
        found["bundles"] = replace(table, short=table.short.reshape(shape), long=table.long.reshape(shape))
        return ReplayState(chance=_numbers(document["chance"]), **found)
    except (msgspec.MsgspecError, KeyError, TypeError, ValueError, AttributeError, UnicodeDecodeError):
        raise InputError(
            f"{path}: is not a sound state of a replay ({FORMAT}); name the file that --state-file wrote, or "
            "begin anew with another"
        ) from None


def effect_bytes(effect: ReplayEffect) -> bytes:
    """The effect as MessagePack, which keeps NaN and every bit of a double."""
    return msgspec.msgpack.encode(effect, enc_hook=_listed)


def effect_from(data: bytes) -> ReplayEffect:
    """Decode an effect from `effect_bytes`."""
    return msgspec.msgpack.decode(data, type=ReplayEffect, dec_hook=_array)


def _listed(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    raise NotImplementedError(f"{type(value).__name__} has no form in a file")


def _array(kind: Any, value: Any) -> Any:
    """An array of the type that its field declares, `NDArray[...]`."""
    return np.array(value, dtype=kind.__args__[1].__args__[0])


def _identity(scenario: ShedderScenario, strategy: str) -> dict[str, object]:
    """The settings that two replays must share, as decoded from JSON."""
    identity: dict[str, object] = {
        "strategy": strategy,
        "seed": scenario.seed,
        "options": scenario.options,
        "order": "java" if scenario.java_order else "file",
        "world": "simulated" if scenario.world_answers else "recorded",
        "policies": scenario.metadata.policies,
        "quotas": scenario.quotas,
    }
    found: dict[str, object] = msgspec.json.decode(msgspec.json.encode(identity))
    return found


def _texts(state: object) -> object:
    """The state of the random numbers with its 128-bit integers as texts, which JSON readers do not round."""
    if isinstance(state, dict):
        return {name: _texts(value) for name, value in state.items()}
    return f"int:{state}" if isinstance(state, int) else state


def _numbers(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _numbers(value) for name, value in state.items()}
    return int(state[4:]) if isinstance(state, str) and state.startswith("int:") else state


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
    """The work of one Spark task; it is sent to the executor.

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
        One metric definition for all.
    out
        Folder for the decisions, a file for each scenario; it appears as a whole or not at all.
    received
        Called with the progress of each running task.
    warned
        Called at the end with each warning about the recording.

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
    """Report the progress files of tasks from a second thread while Spark runs."""
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
