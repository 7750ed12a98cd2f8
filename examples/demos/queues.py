"""The demo of queues: weights of message classes are measured and published, and queues follow them."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from demos.screen import DemoOutput
from demos.turn import DemoPipeline, carry_out
from trimtab.act.execution.settings import RetryPolicy
from trimtab.act.queues import EXECUTOR
from trimtab.files.queues import PLAN_FORMAT as PLANS
from trimtab.files.queues import SNAPSHOT_FORMAT as SNAPSHOTS
from trimtab.lab.sandbox.processes import SandboxProcess, kill, spawn
from trimtab.lab.sandbox.queues import program
from trimtab.lab.sandbox.queues.sandbox import QueuesSandbox, QueuesSandboxState
from trimtab.model.errors import ObserveError, SandboxError
from trimtab.model.queues import QueuesPlan, QueuesSnapshot
from trimtab.observe.collect.sampler import lake_sink
from trimtab.observe.collect.settings import CollectSettings
from trimtab.observe.lake.lake import Lake, microseconds
from trimtab.observe.queues.pipeline import PIPELINE, QueuesPipelineSettings
from trimtab.plan.queues import plan_queues
from trimtab.report.charts import BASELINE, FAINT, INK, LINE, OVERLOADED, save_figure, style_axes
from trimtab.report.queues import plan_text
from trimtab.report.tables import table_lines
from trimtab.systems.redis.client import QueueServerClient as Reader
from trimtab.systems.redis.client import open_server
from trimtab.systems.redis.collector import COLLECTING, QueuesCollector
from trimtab.systems.redis.port import RedisPort
from trimtab_queues.format.documents import QueuesSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from matplotlib.axes import Axes


Period = tuple[float, float]
"""Begin and end, seconds since 1970."""
COLOURS = {"vote": LINE, "report": OVERLOADED}


def draw_picture(
    lake: Lake,
    out: Path,
    periods: Mapping[str, Period],
    weights: Sequence[tuple[float, Mapping[str, float]]],
    changed_at: float,
) -> tuple[Path, Path]:
    """Draw waits of each class in each period, and weights over all of the time.

    Parameters
    ----------
    lake
        Its tables, as the pipeline has made them.
    periods
        `before` and `after`.
    weights
        From when which weights were in force, by class; seconds since 1970, the oldest first.
    changed_at
        When a vote began to take longer.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11.5, 3.6), layout="constrained", facecolor="white")
    panels = figure.subplots(1, 3, width_ratios=[1, 1, 1.5])
    for axes, name in zip(panels, COLOURS, strict=False):
        for (when, period), colour in zip(periods.items(), (BASELINE, COLOURS[name]), strict=True):
            counts = wait_counts(lake, name, *period)
            total = max(sum(counts), 1)
            limits = [0.001 * 2 ** (bucket / 2) for bucket in range(len(counts))]
            shares = [count / total for count in accumulate(counts)]
            axes.step(limits, shares, where="post", color=colour, linewidth=1.8, label=when)
        style_axes(axes)
        axes.set_xscale("log")
        axes.set_xlim(0.001, 10)
        axes.set_ylim(0, 1.02)
        axes.yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
        axes.set_title(f"{name}s that waited no longer", loc="left", fontsize=9.5, color=INK)
        axes.set_xlabel("seconds", fontsize=8, color=FAINT)
        axes.legend(fontsize=8, frameon=False, loc="upper left")
    begun = min(begun for begun, _ in periods.values())
    _weights(panels[2], lake, begun, weights)
    for text, event in {"published": weights[1][0], "a vote takes thrice as long": changed_at}.items():
        panels[2].axvline(event - begun, color=FAINT, linewidth=0.8, linestyle=(0, (2, 2)))
        panels[2].text(event - begun, 0.97, f"{text} ", transform=panels[2].get_xaxis_transform(),
                       fontsize=7.5, color=FAINT, va="top", ha="right", rotation=90)  # fmt: skip
    return save_figure(figure, out, "demo-queues")


def wait_counts(lake: Lake, name: str, started: float, ended: float) -> list[int]:
    """Waits of a class that ended in a period, by their length, as `WAIT_BUCKETS` tells."""
    rows = _rows(lake, "classes", ["message_class", "waits"], started, ended + 1e-3)
    ours = [row["waits"] for row in rows if row["message_class"] == name and row["waits"]]
    return [sum(one) for one in zip(*ours, strict=True)]


def _weights(
    axes: Axes, lake: Lake, started: float, weights: Sequence[tuple[float, Mapping[str, float]]]
) -> None:
    """Weights in force as lines, what windows have measured as dots."""
    measured = _rows(lake, "windows", ["window_end", "message_class", "queue", "mean_seconds"], started)
    last = max(microseconds(row["window_end"]) / 1e6 for row in measured) - started
    for name, colour in COLOURS.items():
        at = [max(one - started, 0.0) for one, _ in weights]
        force = [of[name] for _, of in weights]
        axes.step([*at, max(last, 1.05 * at[-1])], [*force, force[-1]], where="post", color=colour,
                  linewidth=1.8, label=f"{name}: in force")  # fmt: skip
        dots = [
            (microseconds(row["window_end"]) / 1e6 - started, row["mean_seconds"])
            for row in measured
            if row["message_class"] == name and row["queue"] is None and row["mean_seconds"]
        ]
        axes.plot([one for one, _ in dots], [one for _, one in dots], "o", color=colour, markersize=3.5,
                  markerfacecolor="white", label=f"{name}: measured")  # fmt: skip
    style_axes(axes)
    axes.set_yscale("log")
    axes.set_ylim(0.005, 1)
    axes.yaxis.set_major_formatter(lambda value, _: f"{1000 * value:g} ms")
    axes.set_title("what a message takes", loc="left", fontsize=9.5, color=INK)
    axes.set_xlabel("seconds of the demo", fontsize=8, color=FAINT)
    axes.legend(fontsize=7.5, frameon=False, loc="center left", bbox_to_anchor=(0.0, 0.73))


def _rows(
    lake: Lake, table: str, columns: list[str], started: float, ended: float | None = None
) -> list[dict[str, Any]]:
    until = None if ended is None else datetime.fromtimestamp(ended, UTC)
    found: list[dict[str, Any]] = lake.table(
        table, columns, since=datetime.fromtimestamp(started, UTC), until=until
    ).to_pylist()
    return found


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
        return carry_out(EXECUTOR, port, plan, text, RetryPolicy(), self.folder / "state", lambda state: None)

    def weight(self, name: str) -> float:
        """Seconds of a class as published; 0 where it is not."""
        published = self.reader.published()
        return 0.0 if published is None else published.weights.get(name, 0.0)

    def follow_timeout_seconds(self) -> float:
        """Seconds from the publication of what is in force until every process was seen to follow it."""
        published = self.reader.published()
        assert published is not None
        wait_until(lambda: {one.version for one in self.reader.reports()} == {published.version})
        return time.time() - published.published_at


def wait_until(holds: Callable[[], bool]) -> None:
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


def waits_by_class(lake: Lake, started: float, ended: float) -> dict[str, dict[str, float]]:
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
        wait_until(lambda: sum(one.queue is not None for one in here.reader.reports()) == WORKERS)
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
        compared = {"before": waits_by_class(here.lake, *before), "after": waits_by_class(here.lake, *after)}
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
        pictures = draw_picture(here.lake, out, periods, [(before[0], declared), *history], changed_at)
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
