"""The demo of bundles: three Pulsar brokers under the load that Pulsar's own placement gives them.

It also measures what clients notice of each unload.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Final

from demos.broker_demo import Demo, DemoTexts, DemoTimes
from demos.interruptions import (
    ClientInterruption,
    InterruptionSummary,
    interruptions,
    summarize_interruptions,
)
from demos.sampling import SampledSandbox, sampled
from demos.screen import DemoOutput, bar
from demos.turn import carry_out
from trimtab.files.bundles.plan import bundle_plan_bytes
from trimtab.files.bundles.snapshot import read_bundles_snapshot
from trimtab.lab.sandbox.pulsar.cluster import PulsarSandbox
from trimtab.lab.sandbox.pulsar.namespaces import create_namespaces
from trimtab.lab.sandbox.pulsar.workload import NamespaceLoad, PulsarTopicLoad, PulsarWorkload, skewed
from trimtab.model.bundles.plan import BundlePlan, BundlesReceipt
from trimtab.model.bundles.snapshot import RESOURCES, BundlesSnapshot, namespace_of, parse_bundle, topic_hash
from trimtab.observe.bundles.pipeline import PIPELINE, BundlesPipelineSettings
from trimtab.observe.collect.sampler import lake_sink
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings, PulsarCollectSettings
from trimtab.observe.lake.lake import Lake
from trimtab.report.bundles.renderer import plan_text, spent_text
from trimtab.report.formats import bytes_text
from trimtab.systems.pulsar.admin import PulsarAdmin
from trimtab.systems.pulsar.collector import COLLECTING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from rich.table import Table

    from trimtab.act.bundles.state import BundlesExecutionState
    from trimtab.lab.sandbox.load import SandboxLoad
    from trimtab.lab.sandbox.truth import TruthTick
    from trimtab.model.bundles.plan import BundlesSettings


CLUSTER: Final = "sandbox"
HOT_NAMESPACE: Final = "trimtab/orders"
HOT_TOPICS: Final = 12
HOT_SHARE: Final = 0.45
"""Of all messages: no broker of three can carry that and be balanced."""
HOT_MESSAGE_BYTES: Final = 2_000


def uneven(seed: int, messages_per_second: float) -> PulsarWorkload:
    """Two namespaces with uneven topics in many bundles, and one whose only bundle is hot.

    Parameters
    ----------
    seed
        Draws names and rates.
    messages_per_second
        Of all producers together.
    """
    draw = random.Random(seed)
    others = skewed(seed, messages_per_second * (1 - HOT_SHARE))
    names = [f"order-{number:05x}" for number in draw.sample(range(16**5), HOT_TOPICS)]
    weights = [draw.uniform(0.6, 1.4) for _ in names]
    scale = messages_per_second * HOT_SHARE / sum(weights)
    hot = tuple(
        PulsarTopicLoad(name, weight * scale, HOT_MESSAGE_BYTES, 1)
        for name, weight in zip(names, weights, strict=True)
    )
    return PulsarWorkload((*others.namespaces, NamespaceLoad(HOT_NAMESPACE, 1, hot)), seed=seed)


def balanced_capacity(workload: PulsarWorkload, brokers: int, cpu_cores: float) -> CapacitySettings:
    """Capacities under which this load fills a balancer cluster to about half.

    All brokers share one machine, so that what each can carry is declared, not found.

    Parameters
    ----------
    workload
        Its rates.
    brokers
        Over how many it is spread.
    cpu_cores
        Of each broker.
    """
    handed_out = sum(topic.messages_per_second * topic.consumers for _, topic in workload.topics)
    return CapacitySettings(
        cpu_cores=cpu_cores,
        network_in_bytes_per_second=2 * workload.bytes_in_per_second / brokers,
        network_out_bytes_per_second=2 * workload.bytes_out_per_second / brokers,
        message_rate_per_second=2 * (workload.messages_per_second + handed_out) / brokers,
    )


def watched(
    sandbox: PulsarSandbox,
    load: SandboxLoad,
    lake: Lake,
    interval_seconds: float,
    capacity: CapacitySettings,
) -> AbstractContextManager[SampledSandbox[PulsarSandbox]]:
    """Sample a loaded cluster in a thread until the block is left.

    Parameters
    ----------
    capacity
        What brokers can carry, declared.
    """
    settings = CollectSettings(
        interval_seconds=interval_seconds, cluster=CLUSTER, pulsar=PulsarCollectSettings()
    )
    return sampled(
        sandbox,
        load,
        lake,
        interval_seconds,
        lambda: COLLECTING.open(sandbox.connection, settings, capacity),
        lambda: lake_sink(lake.raw, COLLECTING.columns),
    )


@dataclass(frozen=True)
class Disturbance:
    """The effect of one unload on its clients.

    Attributes
    ----------
    bundle, source, target
        Which went where.
    topics
        Those of the load that are in it.
    pauses
        The longest of each client at each of them, between two messages; the usual time from message to
        message is in it.
    """

    bundle: str
    source: str | None
    target: str | None
    topics: tuple[str, ...]
    pauses: tuple[ClientInterruption, ...]

    @property
    def felt(self) -> InterruptionSummary | None:
        """Median and longest; None where it has no clients."""
        return summarize_interruptions(self.pauses)


def disturbances(
    receipt: BundlesReceipt, workload: PulsarWorkload, ticks: Sequence[TruthTick]
) -> tuple[Disturbance, ...]:
    """The effect of each unload of an execution, in the order in which they ended.

    Parameters
    ----------
    receipt
        Of the execution.
    workload, ticks
        What clients were to do, and what they did, until a while after the execution.
    """
    found = []
    for outcome in sorted(receipt.done, key=lambda outcome: outcome.ended_at or 0.0):
        if outcome.kind == "unload" and outcome.started_at is not None and outcome.ended_at is not None:
            topics = topics_in(outcome.bundle, (name for name, _ in workload.topics))
            pauses = interruptions(ticks, topics, outcome.started_at, outcome.ended_at)
            found.append(Disturbance(outcome.bundle, outcome.source, outcome.target, topics, pauses))
    return tuple(found)


def felt_by_all(found: Iterable[Disturbance]) -> InterruptionSummary | None:
    """Median and longest over the clients of all unloads."""
    return summarize_interruptions([pause for one in found for pause in one.pauses])


def topics_in(bundle: str, topics: Iterable[str]) -> tuple[str, ...]:
    """Those topics (full names) that fall into a bundle."""
    place = parse_bundle(bundle)
    return tuple(
        topic
        for topic in topics
        if namespace_of(topic.partition("://")[2]) == place.namespace and place.holds(topic_hash(topic))
    )


def disturbance_table(found: Sequence[Disturbance]) -> Table:
    """The pauses that every unload gave its clients, and of all together."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("unloaded bundle")
    for heading in ("from", "to"):
        table.add_column(heading)
    for heading in ("topics", "pause p50", "max"):
        table.add_column(heading, justify="right")
    for one in found:
        felt = one.felt
        pause = ("–", "–") if felt is None else (f"{felt.p50_seconds:.2f} s", f"{felt.max_seconds:.2f} s")
        table.add_row(one.bundle, one.source or "–", one.target or "–", str(len(one.topics)), *pause)
    felt = felt_by_all(found)
    if felt is not None:
        table.add_row(
            "all", "", "", "", f"{felt.p50_seconds:.2f} s", f"{felt.max_seconds:.2f} s", style="bold"
        )
    return table


# Brokers count every `STATISTICS_SECONDS`, so that a shorter interval tells nothing new.
TIMES: Final = DemoTimes(interval_seconds=5.0, warm_up_seconds=15.0, ticks=8, rate=900.0)
QUICK: Final = DemoTimes(interval_seconds=5.0, warm_up_seconds=6.0, ticks=3, rate=400.0)
BROKERS: Final = 3
CPU_CORES: Final = 0.5
"""Declared for each broker; they all share this machine."""
STATISTICS_SECONDS: Final = 5
"""The interval at which brokers count their messages; Pulsar's default of a minute would make the demo a
quarter of an hour long."""


class BundlesDemo(Demo[PulsarSandbox, BundlesSnapshot, BundlePlan, BundlesReceipt]):
    """Pulsar's part; `settings` are those of the planner."""

    balancer, resources = "bundles", RESOURCES
    texts = DemoTexts(
        system="Pulsar",
        cluster="three brokers, a bookie, a metadata store",
        plan="Plan the smallest disturbance that balances it",
        question="Did it help, and what did clients notice?",
        records="messages",
        title="Three Pulsar brokers under the same load, before and after balancing",
    )
    # Rates of bundles that have just moved begin anew: let them settle.
    settle_seconds = 2.0 * STATISTICS_SECONDS

    def __init__(self, times: DemoTimes, seed: int, settings: BundlesSettings) -> None:
        self.times, self.settings = times, settings
        self.theta, self.epsilon = settings.theta, settings.epsilon
        self.load = uneven(seed, times.rate)
        self.workload = self.load

    def start(self, screen: DemoOutput) -> PulsarSandbox:
        """Three brokers that count their messages often."""
        own = {
            "statsUpdateFrequencyInSecs": str(STATISTICS_SECONDS),
            "statsUpdateInitialDelayInSecs": str(STATISTICS_SECONDS),
        }
        sandbox = PulsarSandbox.start(BROKERS, settings=own, print_progress=screen.print_lines)
        screen.print_lines(f"it serves at {sandbox.service_url}")
        return sandbox

    def create_topics(self, screen: DemoOutput, sandbox: PulsarSandbox) -> None:
        """Namespaces with their topics."""
        with PulsarAdmin(sandbox.connection) as admin:
            create_namespaces(admin, self.load)

    def load_text(self) -> str:
        """Topics, bundles, messages and bytes."""
        load = self.load
        bundles = sum(namespace.bundles for namespace in load.namespaces)
        return (
            f"{len(load.topic_names)} topics in {bundles} bundles of {len(load.namespaces)} namespaces, "
            f"{load.messages_per_second:,.0f} messages/s, {bytes_text(load.bytes_in_per_second)}/s in, "
            f"{bytes_text(load.bytes_out_per_second)}/s out"
        )

    def pipeline_settings(self) -> BundlesPipelineSettings:
        """The newest three windows and a forecast are what a plan has to hold in."""
        window = 2 * self.times.interval_seconds
        return BundlesPipelineSettings(
            window_seconds=window,
            slide_seconds=window,
            horizon_seconds=2 * window,
            trend_windows=max(2, self.times.ticks // 2),
        )

    def sampled(
        self, sandbox: PulsarSandbox, load: SandboxLoad
    ) -> AbstractContextManager[SampledSandbox[PulsarSandbox]]:
        """From the brokers' admin API."""
        lake = Lake(sandbox.state.folder / "lake", PIPELINE)
        capacity = balanced_capacity(self.load, BROKERS, CPU_CORES)
        return watched(sandbox, load, lake, self.times.interval_seconds, capacity)

    def hosts(self, sandbox: PulsarSandbox) -> None:
        """None: a broker's name tells its host."""
        return

    def read_snapshot(self, path: Path) -> BundlesSnapshot:
        """A snapshot of bundles."""
        return read_bundles_snapshot(path)

    def plan(self, snapshot: BundlesSnapshot, noise: Mapping[str, float]) -> BundlePlan:
        """By the settings that were given."""
        from trimtab.plan.bundles.trim import plan_bundles

        return plan_bundles(snapshot, self.settings)

    def plan_text(self, plan: BundlePlan, snapshot: BundlesSnapshot) -> str:
        """With the load."""
        return plan_text(plan, snapshot)

    def plan_bytes(self, plan: BundlePlan) -> bytes:
        """A plan of bundles."""
        return bundle_plan_bytes(plan)

    def act(
        self, screen: DemoOutput, sandbox: PulsarSandbox, snapshot: BundlesSnapshot, plan: BundlePlan
    ) -> BundlesReceipt:
        """Splits and unloads."""
        from trimtab.act.bundles.executor import EXECUTOR
        from trimtab.act.bundles.load_check import progress_of
        from trimtab.act.bundles.state import UnloadSettings
        from trimtab.systems.pulsar.port import PulsarAdminPort

        def watch(state: BundlesExecutionState) -> None:
            now = progress_of(state)
            under_way = f": {now.in_flight[0]}" if now.in_flight else ""
            share = now.steps_ended / max(1, now.steps_total)
            screen.progress(f"{bar(share)} {now.steps_ended} of {now.steps_total} steps{under_way}")

        with PulsarAdmin(sandbox.connection) as admin:
            port, text = PulsarAdminPort(admin, time.time), bundle_plan_bytes(plan).decode()
            receipt: BundlesReceipt = carry_out(
                EXECUTOR, port, plan, text, UnloadSettings(), sandbox.state.folder, watch
            )
        screen.progress(f"{receipt.status}: {self.spent_text(receipt)}", last=True)
        for outcome in receipt.left:
            screen.print_lines(f"{outcome.kind} of {outcome.bundle} {outcome.state}: {outcome.reason}")
        for note in receipt.notes:
            screen.print_lines(note)
        return receipt

    def spent_text(self, receipt: BundlesReceipt | None) -> str:
        """Splits, moves, clients and seconds."""
        return spent_text(receipt)

    def show_clients(
        self, screen: DemoOutput, receipt: BundlesReceipt | None, ticks: Sequence[TruthTick]
    ) -> None:
        """A row for every unload."""
        screen.table(disturbance_table(self._disturbances(receipt, ticks)))

    def facts(self, receipt: BundlesReceipt | None, ticks: Sequence[TruthTick]) -> Mapping[str, object]:
        """The price, and the pauses of clients."""
        felt = felt_by_all(self._disturbances(receipt, ticks))
        spent = (
            None
            if receipt is None
            else {
                "unloads": sum(outcome.kind == "unload" for outcome in receipt.done),
                "splits": sum(outcome.kind == "split" for outcome in receipt.done),
                "sessions": receipt.sessions,
                "seconds": receipt.seconds,
            }
        )
        return {"spent": spent, "pauses": None if felt is None else asdict(felt)}

    def _disturbances(
        self, receipt: BundlesReceipt | None, ticks: Sequence[TruthTick]
    ) -> tuple[Disturbance, ...]:
        return () if receipt is None else disturbances(receipt, self.load, ticks)
