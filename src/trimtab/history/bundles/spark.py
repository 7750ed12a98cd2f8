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
from trimtab.history.bundles.compare import PROGRESS_SECONDS, Comparison, run_scenario
from trimtab.history.bundles.effect import Ruler
from trimtab.history.bundles.hand_overs import HandOvers
from trimtab.history.bundles.recording import Recording
from trimtab.history.bundles.replay import Scenario
from trimtab.history.bundles.saved import effect_bytes, effect_from
from trimtab.history.tasks import run_tasks
from trimtab.model.errors import PlanError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Standing:
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


Heard = Callable[[Mapping[str, Standing]], None]


@dataclass(frozen=True)
class Task:
    """The work of one task; sent to wherever it runs.

    Attributes
    ----------
    name
        Of the scenario, for messages.
    recording, measured_by, scenario
        As for `replay_on_spark`; no scenario moves nothing.
    decisions
        The file for them.
    standing
        The file to leave word in of how far it is; where it cannot be written, nobody is told.
    """

    name: str
    recording: Recording
    measured_by: Ruler
    scenario: Scenario | None
    decisions: Path | None
    standing: Path

    def run(self) -> tuple[bytes, list[str]]:
        """Do it: the effect as bytes, and what is to be known of the recording, told by the task that moves
        nothing.

        Raises
        ------
        PlanError
            With the scenario's name in front.
        """
        last = Standing(0, 0.0)

        def passed(ticks: int, at: float) -> None:
            nonlocal last
            last = Standing(ticks, at)
            self._leave_word(last)

        seen = HandOvers()
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
        self._leave_word(replace(last, ended=True))
        return effect_bytes(found), seen.told()

    def _leave_word(self, standing: Standing) -> None:
        with contextlib.suppress(OSError):
            self.standing.write_bytes(msgspec.json.encode(standing))


def replay_on_spark(
    session: SparkSession,
    recording: Recording,
    scenarios: Mapping[str, Scenario],
    measured_by: Ruler,
    out: Path | None = None,
    heard: Heard | None = None,
    warned: Callable[[str], None] | None = None,
) -> Comparison:
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
    heard
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
        tasks = [Task("nothing moved", recording, measured_by, None, None, standings[""])]
        tasks += [
            Task(name, recording, measured_by, one, file_of(name), standings[name])
            for name, one in scenarios.items()
        ]
        with _listening({one.name: one.standing for one in tasks}, heard):
            (unmoved, sentences), *others = run_tasks(session, tasks)
    if warned is not None:
        for sentence in sentences:
            warned(sentence)
    effects = (effect_from(effect) for effect, _ in others)
    return Comparison(measured_by, effect_from(unmoved), dict(zip(scenarios, effects, strict=True)))


@contextlib.contextmanager
def _listening(standings: Mapping[str, Path], heard: Heard | None) -> Iterator[None]:
    """Tell what tasks leave word of in their files, beside the thread that waits for Spark."""
    if heard is None:
        yield
        return
    over = threading.Event()

    def tell() -> None:
        found = {}
        for name, path in standings.items():
            # Not begun, just being written, or on another machine.
            with contextlib.suppress(OSError, msgspec.MsgspecError):
                found[name] = msgspec.json.decode(path.read_bytes(), type=Standing)
        if found:
            heard(found)

    def listen() -> None:
        while not over.wait(PROGRESS_SECONDS):
            tell()
        tell()

    thread = threading.Thread(target=listen, name="replay-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
