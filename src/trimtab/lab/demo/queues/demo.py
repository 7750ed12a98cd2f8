"""The story of queues: sampled, learned, published, measured again; then a class takes thrice as long."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from trimtab.act.queues.executor import EXECUTOR
from trimtab.act.queues.state import PublishSettings
from trimtab.files.queues.plan import FORMAT as PLANS
from trimtab.files.queues.settings import QueuesSettings
from trimtab.files.queues.snapshot import FORMAT as SNAPSHOTS
from trimtab.lab.demo.queues.picture import draw
from trimtab.lab.demo.screen import DemoOutput
from trimtab.lab.demo.turn import DemoPipeline, carry_out
from trimtab.lab.sandbox.processes import SandboxProcess, kill, spawn
from trimtab.lab.sandbox.queues import program
from trimtab.lab.sandbox.queues.sandbox import QueuesSandbox
from trimtab.lab.sandbox.queues.state import QueuesSandboxState
from trimtab.model.errors import ObserveError, SandboxError
from trimtab.model.queues.plan import QueuesPlan
from trimtab.model.queues.snapshot import QueuesSnapshot
from trimtab.observe.collect.run import lake_sink
from trimtab.observe.collect.settings import CollectSettings
from trimtab.observe.lake import Lake
from trimtab.observe.queues.pipeline import PIPELINE, QueuesPipelineSettings
from trimtab.plan.queues.trim import plan_queues
from trimtab.report.queues.renderer import plan_text
from trimtab.report.tables import table_lines
from trimtab.systems.redis.collector import COLLECTING, QueuesCollector
from trimtab.systems.redis.port import RedisPort
from trimtab.systems.redis.server import QueueServerClient as Reader
from trimtab.systems.redis.server import open_server

STEPS: Final = 8
WORKERS: Final = 4
TIMEOUT_SECONDS: Final = 300.0
DECLARED_SECONDS: Final = 0.1
"""What the sandbox' settings say of every class."""
FOLLOWED_SECONDS: Final = 120.0
"""A window of samples, two turns of Spark and a second of publication, with room for a busy machine."""


@dataclass(frozen=True)
class QueuesDemoTimes:
    """Seconds between two samples, of load before the first, and of each measurement."""

    interval_seconds: float
    warm_up_seconds: float
    measured_seconds: float


TIMES: Final = QueuesDemoTimes(2.0, 20.0, 60.0)
QUICK: Final = QueuesDemoTimes(1.0, 5.0, 15.0)


@dataclass
class QueuesDemoSetup:
    """A loaded server, its samples, and what makes something of them."""

    sandbox: QueuesSandboxState
    reader: Reader
    lake: Lake
    pipeline: DemoPipeline
    settings: QueuesSettings
    times: QueuesDemoTimes
    folder: Path

    def sample(self, seconds: float) -> tuple[float, float]:
        """Sample for so long; when that began and ended, seconds since 1970."""
        collector = QueuesCollector(self.reader, CollectSettings())
        begun = time.time()
        with lake_sink(self.lake.raw, COLLECTING.columns) as landing:
            while True:
                tick = time.time()
                sample = collector.sample()
                landing.write(sample.batches, sample.cluster, datetime.fromtimestamp(tick, UTC))
                if tick >= begun + seconds:
                    return begun, tick
                time.sleep(max(0.0, tick + self.times.interval_seconds - time.time()))

    def learn(self) -> tuple[QueuesSnapshot, QueuesPlan]:
        """Through Spark to a snapshot, and the plan from that."""
        self.pipeline.run(self.lake, lambda line: None)
        snapshot = SNAPSHOTS.read(Path(str(self.lake.newest_snapshot("queues"))))
        return snapshot, plan_queues(snapshot, self.settings)

    def publish(self, plan: QueuesPlan) -> Any:
        """Carry the plan out; its receipt."""
        port = RedisPort(self.reader, time.time)
        text = PLANS.to_bytes(plan).decode()
        return carry_out(
            EXECUTOR, port, plan, text, PublishSettings(), self.folder / "state", lambda state: None
        )

    def weight(self, name: str) -> float:
        """Seconds of a class as published; 0 where it is not."""
        published = self.reader.published()
        return 0.0 if published is None else published.weights.get(name, 0.0)

    def follow_timeout_seconds(self) -> float:
        """Seconds from the publication of what is in force until every process was seen to follow it."""
        published = self.reader.published()
        assert published is not None
        until(lambda: {one.version for one in self.reader.reports()} == {published.version})
        return time.time() - published.published_at


def until(holds: Callable[[], bool]) -> None:
    """Wait for something.

    Raises
    ------
    SandboxError
        If it does not come in five minutes.
    """
    end = time.monotonic() + TIMEOUT_SECONDS
    while not holds():
        if time.monotonic() > end:
            raise SandboxError("the demo waited five minutes in vain: this machine may be too busy")
        time.sleep(0.1)


@contextmanager
def demo_setup(settings: QueuesSettings, times: QueuesDemoTimes, seed: int) -> Iterator[QueuesDemoSetup]:
    """A server, four workers, a sender and a pipeline, all gone afterwards."""
    with TemporaryDirectory(prefix="trimtab-queues-") as name:
        folder = Path(name)
        window = max(5.0, 5 * times.interval_seconds)
        pipeline = DemoPipeline(
            folder / "spark", QueuesPipelineSettings(window_seconds=window, slide_seconds=window)
        )
        sender: list[SandboxProcess] = []
        try:
            with (
                QueuesSandbox.start(WORKERS, folder=folder / "sandbox") as sandbox,
                open_server(sandbox.state.connection) as reader,
            ):
                words = ["send", sandbox.state.settings, seed, program.rate(WORKERS)]
                command = [sys.executable, "-m", program.__name__, *map(str, words)]
                sender.append(spawn(command, folder, folder / "sender.log", outlive=False))
                lake = Lake(folder / "lake", PIPELINE)
                yield QueuesDemoSetup(sandbox.state, reader, lake, pipeline, settings, times, folder)
        finally:
            kill(sender)
            pipeline.close()


def waits(lake: Lake, started: float, ended: float) -> dict[str, dict[str, float]]:
    """By class: messages begun in a period, their mean wait, and what half and 99 % did not exceed."""
    rows = lake.table(
        "classes", ["message_class", "processed", "waited_seconds", "waits"],
        since=datetime.fromtimestamp(started, UTC), until=datetime.fromtimestamp(ended + 1e-3, UTC),
    ).to_pylist()  # fmt: skip
    found: dict[str, dict[str, float]] = {}
    for name in sorted({row["message_class"] for row in rows}):
        ours = [row for row in rows if row["message_class"] == name and row["waits"]]
        counts = [sum(one) for one in zip(*(row["waits"] for row in ours), strict=True)]
        number = sum(counts)
        if number:
            waited = float(sum(row["waited_seconds"] for row in ours))
            found[name] = {
                "messages": number,
                "mean": waited / number,
                "p50": _quantile(counts, 0.5),
                "p99": _quantile(counts, 0.99),
            }
    return found


def _quantile(counts: list[int], share: float) -> float:
    left = share * sum(counts)
    for bucket, count in enumerate(counts):
        left -= count
        if left <= 0:
            return float(0.001 * 2 ** (bucket / 2))
    raise ObserveError("no waits were counted")


def run(screen: DemoOutput, out: Path, seed: int, settings: QueuesSettings, *, quick: bool) -> bool:
    """The whole story; whether votes waited less in the end, and a change of their cost was followed."""
    pace = QUICK if quick else TIMES
    settings = replace(settings, min_samples=min(settings.min_samples, 30))
    screen.step("Start a server of queues (Valkey), four workers and a sender")
    with demo_setup(settings, pace, seed) as here:
        screen.print_lines(
            f"it serves at {here.sandbox.url}; every accepted message is on disk before it is answered"
        )
        screen.step("Load them: short votes and long reports, all declared alike")
        votes, reports = (1000 * one for one in (program.VOTE_SECONDS, program.REPORT_SECONDS))
        screen.print_lines(
            f"{program.rate(WORKERS):.0f} messages/s: four of five are votes of {votes:.0f} ms, one is a "
            f"report of {reports:.0f} ms; workers are busy {program.USE:.0%} of the time"
        )
        until(lambda: sum(one.queue is not None for one in here.reader.reports()) == WORKERS)
        here.sample(pace.warm_up_seconds)
        before = here.sample(pace.measured_seconds)
        screen.step("Work out what each class takes, with Spark")
        snapshot, plan = here.learn()
        screen.step("Plan which weights are worth publishing")
        screen.wide(plan_text(plan, snapshot))
        screen.step("Publish them, with sender and workers at work")
        receipt = here.publish(plan)
        taken = here.follow_timeout_seconds()
        screen.wide("\n".join(_weights_table(plan)))
        screen.print_lines(
            f"{len(receipt.done)} weights published; all {len(here.reader.reports())} processes were seen to "
            f"follow them within {taken:.1f} s, none was restarted"
        )
        out.mkdir(parents=True, exist_ok=True)
        PLANS.write(plan, out / "plan.json")
        screen.step("Did it help?")
        here.sample(pace.warm_up_seconds)
        after = here.sample(pace.measured_seconds)
        here.learn()
        compared = {"before": waits(here.lake, *before), "after": waits(here.lake, *after)}
        screen.wide("\n".join(_table(compared)))
        screen.step("A vote takes three times as long from now on")
        screen.print_lines(
            f"W of a vote is to be within a fifth of what it takes, everywhere, in {FOLLOWED_SECONDS:.0f} s"
        )
        changed_at, followed = time.time(), _followed(here, screen)
        pair = (f"{1000 * followed[name]:.3g}" for name in ("weight_before", "weight"))
        screen.print_lines(
            f"followed: W of a vote {' → '.join(pair)} ms, in force everywhere {followed['seconds']:.0f} s "
            "after the change"
        )
        screen.step("What remains")
        declared = dict.fromkeys(("vote", "report"), DECLARED_SECONDS)
        history = [(one.published_at, {**declared, **one.weights}) for one in here.reader.history()]
        periods = {"before": before, "after": after}
        pictures = draw(here.lake, out, periods, [(before[0], declared), *history], changed_at)
        result = {"waits_seconds": compared, "taken_up_seconds": taken, "followed": followed, "seed": seed}
        (out / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        screen.print_lines(
            f"{', '.join(map(str, pictures))}, plan.json and result.json in {out}; no process, no data"
        )
    helped = compared["after"]["vote"]["p99"] < compared["before"]["vote"]["p99"]
    return helped and followed["seconds"] <= FOLLOWED_SECONDS


def _weights_table(plan: QueuesPlan) -> list[str]:
    """W of each class before and after, with what it takes in truth."""
    truth = {"vote": program.VOTE_SECONDS, "report": program.REPORT_SECONDS}
    rows = [["class", "W before", "W after", "it takes"]]
    for one in plan.moves:
        seconds = (DECLARED_SECONDS, float(one.after), truth[one.name])
        rows.append([one.name, *(f"{1000 * value:.3g} ms" for value in seconds)])
    return table_lines(rows, "lrrr")


def _followed(here: QueuesDemoSetup, screen: DemoOutput) -> dict[str, float]:
    """Turns of the loop until a vote's weight is within a fifth of three times what it was."""
    begun, before = time.time(), here.weight("vote")
    here.sandbox.settings.with_name(program.SLOW).touch()
    wanted = program.SLOWER * program.VOTE_SECONDS
    for turn in range(1, 21):
        here.sample(2 * here.times.interval_seconds)
        _, plan = here.learn()
        if plan.moves:
            here.publish(plan)
            here.follow_timeout_seconds()
        weight, seconds = here.weight("vote"), time.time() - begun
        screen.print_lines(
            f"turn {turn} of sampling, Spark, plan and publication, {seconds:.0f} s after the change: W of a "
            f"vote is {weight * 1000:.3g} ms"
        )
        if weight >= 0.8 * wanted:
            return {"seconds": seconds, "turns": float(turn), "weight_before": before, "weight": weight}
    raise SandboxError("twenty turns did not follow a vote that takes thrice as long: something is wrong")


def _table(compared: dict[str, dict[str, dict[str, float]]]) -> list[str]:
    rows = [
        ["class", "messages", "after", "mean wait", "after", "half below", "after", "99 % below", "after"]
    ]
    for name in compared["after"]:
        pair = [compared[when].get(name, {}) for when in ("before", "after")]
        rows.append(
            [name, *(f"{one.get('messages', 0):.0f}" for one in pair)]
            + [f"{one.get(key, float('nan')):.3g} s" for key in ("mean", "p50", "p99") for one in pair]
        )
    return table_lines(rows, "lrrrrrrrr")
