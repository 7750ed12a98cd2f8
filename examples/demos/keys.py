"""The demo of keys: a partition falls behind, a routing table spreads its keys, and keys stay in order."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from demos.keys_records import Period, draw_records, following, records_in
from demos.screen import DemoOutput
from demos.turn import DemoPipeline, carry_out
from trimtab.act.execution.state import ExecutionStatus
from trimtab.act.keys.executor import EXECUTOR
from trimtab.act.keys.state import KeysExecutionSettings as ActSettings
from trimtab.act.keys.state import KeysExecutionState, RoutingStepKind
from trimtab.files.keys.formats import PLAN_FORMAT as PLANS
from trimtab.files.keys.formats import SNAPSHOT_FORMAT as SNAPSHOTS
from trimtab.files.keys.settings import KeysSettings
from trimtab.history.keys.simulation import Zipf, key_name
from trimtab.jars import ProgressCallback, spark_kafka_jars
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.keys.load import (
    GROUP,
    TICK_SECONDS,
    BacklogSample,
    KeyedLoad,
    KeysViolation,
    LoadedTopic,
    checked_text,
)
from trimtab.lab.sandbox.keys.worker import TABLES
from trimtab.model.errors import ActError
from trimtab.model.keys import KeysPlan, KeysSnapshot
from trimtab.observe.keys.pipeline import PIPELINE, KeysPipelineSettings
from trimtab.observe.lake.lake import Lake
from trimtab.plan.keys.trim import plan_keys
from trimtab.report.keys import plan_text, receipt_text, status_text
from trimtab.report.tables import table_lines
from trimtab.systems.kafka.client import open_admin
from trimtab.systems.kafka.keyed_topic import TOPIC as KAFKA_TOPIC
from trimtab.systems.kafka.keyed_topic import open_port
from trimtab.systems.kafka.offset_sampling import OffsetSampling
from trimtab.systems.kafka.settings import KafkaConnection, spark_options
from trimtab_keys.core.routing import POSITIVE, murmur2

BROKERS: Final = 3
PARTITIONS: Final = 4
PRODUCERS: Final = 2
KEY_DISTRIBUTION: Final = Zipf(1.4)
CONSUMER_PER_SECOND: Final = 50.0
"""What each consumer can do; each has a partition."""
RATE: Final = 0.55 * PARTITIONS * CONSUMER_PER_SECOND
"""Records a second that producers send in all: all consumers together have room."""
FULLEST: Final = (1.15, 1.35)
"""Of what its consumer can do, the fullest partition gets so much by the plain hash."""


@dataclass
class KeysDemoSetup:
    """A loaded topic, and what reads it."""

    connection: KafkaConnection
    loaded: LoadedTopic
    lake: Lake
    pipeline: DemoPipeline
    offset_sampling: OffsetSampling
    folder: Path

    def watch(self, seconds: float, text: Callable[[str, bool], None]) -> tuple[float, float]:
        """Look on for so long; when that began and ended, seconds since 1970."""
        begun = time.time()
        while (now := time.time()) < begun + seconds:
            text(f"{now - begun:.0f} s: {self.loaded.backlog().text}", False)
            time.sleep(TICK_SECONDS)
        text(f"{seconds:.0f} s: {self.loaded.backlog().text}", True)
        return begun, time.time()

    def observe(self) -> KeysSnapshot:
        """The topic as Spark reads it now; the look before it is the begin of its rates."""
        self.offset_sampling.read(self.pipeline.session, spark_options(self.connection))
        self.pipeline.run(self.lake, lambda line: None)
        return SNAPSHOTS.read(Path(str(self.lake.newest_snapshot())))


def names_drawn(seed: int) -> tuple[int, int, float]:
    """Names of keys with which the plain hash fills one partition too much.

    Returns
    -------
    tuple
        Which names; the fullest partition, and what arrives there over what its consumer can do.
    """
    shares = KEY_DISTRIBUTION.shares()
    for names in count(1 + 10 * seed):
        loads = [0.0] * PARTITIONS
        for rank, share in enumerate(shares):
            loads[(murmur2(key_name(rank, names)) & POSITIVE) % PARTITIONS] += share
        full = max(loads) * RATE / CONSUMER_PER_SECOND
        if FULLEST[0] <= full <= FULLEST[1]:
            return names, loads.index(max(loads)), full
    raise AssertionError("names do not end")


@contextmanager
def demo_setup(seed: int, sample_seconds: float, print_progress: ProgressCallback) -> Iterator[KeysDemoSetup]:
    """Brokers, a topic and a pipeline; all gone afterwards."""
    chosen = KeysPipelineSettings(sample_interval_seconds=sample_seconds)
    names, _, _ = names_drawn(seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="trimtab-keys-")))
        sandbox = stack.enter_context(
            KafkaSandbox.start(
                BROKERS, prometheus=False, folder=folder / "sandbox", print_progress=print_progress
            )
        )
        pipeline = DemoPipeline(folder / "spark", chosen, tuple(spark_kafka_jars(print_progress)))
        stack.callback(pipeline.close)
        admin = stack.enter_context(open_admin(sandbox.connection, request_timeout_ms=15_000))
        load = KeyedLoad(
            key_distribution=KEY_DISTRIBUTION, names=names, partitions=PARTITIONS, rate=RATE,
            producers=PRODUCERS,
            consumers=PARTITIONS, consumer_rate=CONSUMER_PER_SECOND,
        )  # fmt: skip
        loaded = LoadedTopic(sandbox.connection, admin, folder / "work", load)
        stack.callback(loaded.close)
        lake = Lake(folder / "lake", PIPELINE)
        reading = OffsetSampling(loaded.topic, chosen, GROUP, lake, print_progress)
        yield KeysDemoSetup(sandbox.connection, loaded, lake, pipeline, reading, folder)


STEPS: Final = 8
RESOLUTION_SECONDS: Final = 0.001
"""Of the times of Kafka's records: a shorter or negative time says nothing."""


@dataclass(frozen=True)
class KeysDemoTimes:
    """Seconds of each measurement, between offsets that make rates, and at most until nothing waits."""

    measured_seconds: float
    sample_seconds: float
    after_seconds: float


TIMES: Final = KeysDemoTimes(45.0, 10.0, 90.0)
QUICK: Final = KeysDemoTimes(20.0, 5.0, 60.0)


class ExecutionProgressView:
    """Where an execution is, told on a screen, with the times of what happened.

    Attributes
    ----------
    events
        What happened when, seconds since 1970.
    version
        Of the first table that was published; 0 before.
    is_followed
        Whether every producer and consumer was seen to follow it.
    """

    def __init__(self, screen: DemoOutput) -> None:
        self._screen, self.events = screen, dict[str, float]()
        self.version, self.is_followed = 0, False

    def watch(self, state: KeysExecutionState) -> None:
        """Tell a state, and note what is new in it."""
        ended = {one.step.kind: one.ended_at for one in state.records if one.ended_at is not None}
        if state.version and not self.version:
            self.version = state.version
            self._screen.print_lines(f"table {state.version} is published")
        self.is_followed = self.is_followed or RoutingStepKind.PUBLISH in ended
        if (at := ended.get(RoutingStepKind.SETTLE)) is not None:
            self.events.setdefault("settled", at)
        if state.observation is not None and state.version:
            found = state.observation
            waits = tuple(max(0, end - done) for end, done in zip(found.ends, found.passed, strict=True))
            done = state.status in (ExecutionStatus.FINISHED, ExecutionStatus.CLEANING)
            self._screen.progress(BacklogSample(waits).text, last=done)


def run(screen: DemoOutput, out: Path, seed: int, settings: KeysSettings, *, quick: bool) -> bool:
    """The whole story; whether it helped, and every record took effect in its order."""
    pace = QUICK if quick else TIMES
    settings = replace(settings, table_location=f"{KAFKA_TOPIC}{TABLES}", consumer_group=GROUP)
    screen.step(f"Start a real Kafka cluster: {BROKERS} brokers; and one topic of {PARTITIONS} partitions")
    with demo_setup(seed, pace.sample_seconds, screen.print_lines) as here:
        _, hot, full = names_drawn(seed)
        screen.step(f"Let {PRODUCERS} producers send, and {PARTITIONS} consumers receive")
        screen.print_lines(
            f"{RATE:.0f} records/s of {KEY_DISTRIBUTION.keys:,} keys, by Zipf's law with exponent "
            f"{KEY_DISTRIBUTION.exponent:g}: the "
            f"most frequent one has {KEY_DISTRIBUTION.shares()[0]:.0%}.\n"
            f"Each consumer can do {CONSUMER_PER_SECOND:.0f} records/s, by the clock: all together are used "
            f"to {RATE / PARTITIONS / CONSUMER_PER_SECOND:.0%}, but\n"
            f"partition {hot} gets {full:.2f} times what its consumer can do"
        )
        before = _load(screen, here, pace)
        screen.step("Read the topic itself with Spark: which keys, what they cost their consumer")
        here.offset_sampling.sample_offsets()
        first = here.observe()
        screen.wide("\n".join(map(str, status_text(first))))
        screen.step("Plan which key groups move, and which keys are split")
        plan = plan_keys(first, settings)
        screen.wide(plan_text(plan))
        out.mkdir(parents=True, exist_ok=True)
        PLANS.write(plan, out / "plan.json")
        screen.step("Publish the table, with producers and consumers at work")
        events = _publish(screen, here, plan)
        screen.step("Did it help?")
        _work_off(screen, here, pace.after_seconds)
        here.offset_sampling.sample_offsets()
        after = here.watch(pace.measured_seconds, lambda text, last: screen.progress(text, last=last))
        second = here.observe()
        screen.step("Hold every record against its order, one by one")
        in_order, told = _checked(here)
        records = records_in(here.loaded.folder / "effects", PARTITIONS)
        figures = {when: records.figures(its) for when, its in (("before", before), ("after", after))}
        screen.wide("\n".join(_table(figures)))
        screen.print_lines(_by_spark(first, second))
        screen.print_lines(told)
        helped = _helped(figures)
        screen.print_lines("It helped." if helped and in_order else "By these figures it did not help.")
        screen.step("What remains")
        told_of: dict[str, float] = {
            name: events[name] for name in ("table published", "settled") if name in events
        }
        pictures = draw_records(
            records, out, {"before": before, "after": after}, told_of, CONSUMER_PER_SECOND, hot
        )
        result = {
            **figures,
            "seed": seed,
            "order": told,
            "in_order": in_order,
            "seconds_after_publication": {
                name: at - events["table published"] for name, at in events.items()
            },
            "by_spark": [asdict(one.imbalance().measures()) for one in (first, second)],
            "load_average": os.getloadavg(),
        }
        (out / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        screen.print_lines(
            f"{', '.join(map(str, pictures))}, plan.json and result.json in {out}; no process, no data"
        )
    return helped and in_order


def _load(screen: DemoOutput, here: KeysDemoSetup, times: KeysDemoTimes) -> Period:
    """Start everybody, and look on until the partition has fallen behind; the time that is measured."""
    # Spark first: what waits while it starts would have to be worked off in the end.
    while not here.pipeline.started:
        screen.progress("Spark starts")
        time.sleep(0.1)
    here.loaded.start()
    here.loaded.until(lambda: sum(here.loaded.topic.describe().ends.values()) > RATE, "the first records")
    period = here.watch(times.measured_seconds, lambda text, last: screen.progress(text, last=last))
    busy = 6 * CONSUMER_PER_SECOND
    # A consumer with less work before it does not show what it can do.
    here.loaded.until(lambda: max(here.loaded.backlog().waiting) > busy, "a partition that falls behind")
    return period


def _work_off(screen: DemoOutput, here: KeysDemoSetup, most_seconds: float) -> None:
    """Wait, though not for ever, until next to nothing waits: records of a split key go on run by run."""
    end = time.monotonic() + most_seconds
    while sum((look := here.loaded.backlog()).waiting) > RATE and time.monotonic() < end:
        screen.progress(look.text)
        time.sleep(1.0)
    screen.progress(look.text, last=True)


def _publish(screen: DemoOutput, here: KeysDemoSetup, plan: KeysPlan) -> dict[str, float]:
    """Carry the plan out; what happened when.

    Raises
    ------
    ActError
        If there is nothing to do: the load is as the demo made it.
    """
    told = ExecutionProgressView(screen)
    with open_port(here.connection, time.time) as port:
        text = PLANS.to_bytes(plan).decode()
        receipt = carry_out(EXECUTOR, port, plan, text, ActSettings(), here.folder / "state", told.watch)
    if not told.is_followed:
        raise ActError(f"the table is not in force as planned: {receipt_text(receipt)}")
    topic = here.loaded.topic
    measured = following(topic.records(), topic.topic, told.version)
    if measured is None:
        raise ActError(f"table {told.version} or its followers' heartbeats are gone from topic {TABLES}")
    published_at, followed_at = measured
    told.events |= {"table published": published_at, "all follow": max(followed_at.values())}
    screen.print_lines(followed_text(published_at, followed_at))
    if "settled" in told.events:
        seconds = told.events["settled"] - told.events["table published"]
        screen.print_lines(
            f"what was written before is done with, {seconds:.0f} s after the table was published"
        )
    else:
        screen.print_lines(
            "what was written before is not done with yet: this machine is busy with other things"
        )
    return told.events


def followed_text(published_at: float, followed_at: Mapping[str, float]) -> str:
    """How long producers and consumers took to follow a table, by the times of its record and theirs."""
    seconds = [at - published_at for at in followed_at.values()]
    number = f"all {len(seconds)} producers and consumers"
    if min(seconds) < RESOLUTION_SECONDS:
        return f"{number} follow it; their clocks do not tell how soon"
    return (
        f"{number} followed it within {max(seconds):.2f} s, by the times of the table's record and of theirs"
    )


def _checked(here: KeysDemoSetup) -> tuple[bool, str]:
    """Let everything take effect, and hold it against what was sent."""
    try:
        return True, checked_text(here.loaded.settle())
    except KeysViolation as error:
        return False, f"This failed: {error}"


def _helped(figures: dict[str, dict[str, Any]]) -> bool:
    """Whether the fullest partition gets less, and the slowest records wait less."""
    before, after = figures["before"], figures["after"]
    return all(bool(after[name] < before[name]) for name in ("max_over_mean", "p99_seconds"))


def _by_spark(first: KeysSnapshot, second: KeysSnapshot) -> str:
    pairs = []
    for one in (first, second):
        rates = [part.records_per_second for part in one.partitions]
        pairs.append(f"{max(rates) * len(rates) / sum(rates):.2f}")
    return f"by Spark's reading the fullest partition got {' → '.join(pairs)} times the mean"


def _table(figures: dict[str, dict[str, Any]]) -> list[str]:
    """Load, what waits and delays, before and after."""
    before, after = figures["before"], figures["after"]
    rows = [["partition", "records/s", "after", "use", "after", "waiting in the end", "after"]]
    for part in range(PARTITIONS):
        rates = [one["records_per_second"][part] for one in (before, after)]
        rows.append(
            [str(part), *(f"{one:.1f}" for one in rates)]
            + [f"{one / CONSUMER_PER_SECOND:.0%}" for one in rates]
            + [f"{one['waiting_at_end'][part]:,.0f}" for one in (before, after)]
        )
    told = [["", "before", "after"]]
    told.append(
        ["fullest partition over the mean", *(f"{one['max_over_mean']:.2f}" for one in (before, after))]
    )
    for name, share in (("p50", "half of the records"), ("p99", "99 % of the records")):
        told.append(
            [
                f"{share}: sent to effect, at most",
                *(f"{one[f'{name}_seconds']:.3g} s" for one in (before, after)),
            ]
        )
    return [*table_lines(rows, "rrrrrrr"), "", *table_lines(told, "lrr")]
