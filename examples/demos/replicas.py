"""The demo of replicas: six Kafka brokers under the load that Kafka's own placement gives them."""

from __future__ import annotations

import time
from contextlib import AbstractContextManager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from demos.broker_demo import Demo, DemoTexts, DemoTimes
from demos.sampling import SampledSandbox, sampled
from demos.screen import DemoOutput, bar
from demos.turn import carry_out
from trimtab.balancers import BALANCERS
from trimtab.balancers.planning import planner_of
from trimtab.files.replicas.plan import plan_bytes
from trimtab.files.replicas.snapshot import read_snapshot
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.kafka.runtime import LOAD_DRIVEN_CPU
from trimtab.lab.sandbox.kafka.topics import PROMPT_RETENTION, preload_topics, with_flat_disk
from trimtab.lab.sandbox.kafka.workload import skewed
from trimtab.model.replicas.plan import Plan, ReplicasReceipt
from trimtab.model.replicas.settings import RESOURCES
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.observe.collect.sampler import lake_sink
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE, ReplicasPipelineSettings
from trimtab.report.formats import bytes_text, duration_text
from trimtab.report.replicas.renderer import plan_text, progress_text, spent, spent_text
from trimtab.systems.kafka.collector import COLLECTING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from trimtab.act.replicas.load_check import ReplicasForecast
    from trimtab.act.replicas.state import ReplicasExecutionSettings, ReplicasExecutionState
    from trimtab.lab.sandbox.kafka.workload import KafkaWorkload
    from trimtab.lab.sandbox.load import SandboxLoad
    from trimtab.lab.sandbox.truth import TruthTick
    from trimtab.model.replicas.settings import ReplicasSettings


CLUSTER = "sandbox"


def watched(
    sandbox: KafkaSandbox,
    load: SandboxLoad,
    lake: Lake,
    interval_seconds: float,
    capacity: CapacitySettings,
    truth: Path,
) -> AbstractContextManager[SampledSandbox[KafkaSandbox]]:
    """Sample a loaded cluster in a thread until the block is left.

    Parameters
    ----------
    capacity
        What brokers can carry, declared.
    truth
        Folder where the load's clients write what they did.
    """
    settings = CollectSettings(
        interval_seconds=interval_seconds,
        cluster=CLUSTER,
        prometheus={str(broker): url for broker, url in sandbox.prometheus_endpoints.items()},
        hosts={str(broker): host for broker, host in sandbox.hosts.items()},
        client_samples=(truth / "*.truth.jsonl",),
    )
    return sampled(
        sandbox,
        load,
        lake,
        interval_seconds,
        lambda: COLLECTING.open(sandbox.connection, settings, capacity),
        lambda: lake_sink(lake.raw, COLLECTING.columns),
    )


def balanced_capacity(workload: KafkaWorkload, brokers: int, cpu_cores: float) -> CapacitySettings:
    """Capacities under which this load fills a balancer cluster to about half.

    All brokers share one machine, so that what each can carry is declared, not found: bytes in with their
    replicas, bytes out, and the disk that the load's data need, each twice the mean broker's share.

    Parameters
    ----------
    workload
        Its rates and preloaded bytes.
    brokers
        Over how many it is spread.
    cpu_cores
        Of each broker.
    """
    inward = sum(sum(topic.bytes_per_second) * topic.replication_factor for topic in workload.topics)
    held = sum(sum(topic.preload_bytes) * topic.replication_factor for topic in workload.topics)
    return CapacitySettings(
        cpu_cores=cpu_cores,
        network_in_bytes_per_second=2 * inward / brokers,
        network_out_bytes_per_second=2 * workload.bytes_out_per_second / brokers,
        disk_bytes=2 * held / brokers,
    )


TIMES = DemoTimes(interval_seconds=3.0, warm_up_seconds=20.0, ticks=20, rate=8_000_000.0)
QUICK = DemoTimes(interval_seconds=2.0, warm_up_seconds=4.0, ticks=4, rate=3_000_000.0)
CPU_CORES = 0.35
"""Declared for each broker; they all share this machine."""
COPY_BYTES_PER_SECOND = "20000000"
"""As fast as this machine stands; half of what is free of the small declared networks would take minutes."""
MOST_MARGIN = 0.4
"""Of ε: a plan that aims at less copies more than the certainty is worth.

Brokers under loads that the plan predicts as equal differ by up to 5 % of their mean in CPU that is measured
over a minute, beside the deviation that the plan leaves.
"""
FIT_WINDOWS = 500
"""More than a demo has, second turn and disturbed samples included."""
LIVE_BYTES = 8_000_000
"""Kept by each partition that is written to."""
PLACES = "hosts h1, h2, h3 with two brokers each, every host a rack, two log dirs a broker"


class ReplicasDemo(Demo[KafkaSandbox, ReplicasSnapshot, Plan, ReplicasReceipt]):
    """Kafka's part; `settings` are those of the planner."""

    balancer, resources = "replicas", RESOURCES
    texts = DemoTexts(
        system="Kafka",
        cluster="six brokers, and a controller apart",
        plan="Plan the smallest set of moves that balances it",
        question="Did it help?",
        records="records",
        title="Six brokers under the same load, before and after balancing",
    )

    def __init__(self, times: DemoTimes, seed: int, settings: ReplicasSettings) -> None:
        self.times, self.settings = times, settings
        self.theta, self.epsilon = settings.theta, settings.epsilon
        self.load = with_flat_disk(skewed(seed, times.rate), LIVE_BYTES)
        self.workload = self.load
        self.forecast_seconds: list[float | None] = []
        # Followers catch up, caches fill: what is measured should be the new placement, not the change.
        self.settle_seconds = 2 * times.interval_seconds

    def start(self, screen: DemoOutput) -> KafkaSandbox:
        """Six brokers."""
        properties = {**LOAD_DRIVEN_CPU, **PROMPT_RETENTION}
        sandbox = KafkaSandbox.start(6, properties=properties, print_progress=screen.print_lines)
        screen.print_lines(f"it serves at {sandbox.bootstrap.split(',')[0]} and five more ports; {PLACES}")
        return sandbox

    def create_topics(self, screen: DemoOutput, sandbox: KafkaSandbox) -> None:
        """Topics, filled to the size that they keep."""
        preload_topics(sandbox.connection, self.load, None, screen.print_lines)

    def load_text(self) -> str:
        """Topics, partitions and bytes."""
        load = self.load
        return (
            f"{len(load.topics)} topics, {sum(topic.partitions for topic in load.topics)} partitions, "
            f"{bytes_text(load.bytes_in_per_second)}/s in, {bytes_text(load.bytes_out_per_second)}/s out"
        )

    def pipeline_settings(self) -> ReplicasPipelineSettings:
        """Load values from one window, as long as the cluster is watched.

        The result is measured over as long. Network in counts by its latest window: with windows of two
        samples a plan would be made for six seconds of it, and measured by a minute. The CPU model is fitted
        over the whole demo: brokers that all carry the same tell nothing of what a byte costs.
        """
        slide = 2 * self.times.interval_seconds
        return ReplicasPipelineSettings(
            window_seconds=max(1, self.times.ticks // 2) * slide,
            slide_seconds=slide,
            windows=1,
            cpu_fit_windows=FIT_WINDOWS,
        )

    def sampled(
        self, sandbox: KafkaSandbox, load: SandboxLoad
    ) -> AbstractContextManager[SampledSandbox[KafkaSandbox]]:
        """With the truth of the load's clients."""
        folder, capacity = sandbox.state.folder, balanced_capacity(self.load, len(sandbox.brokers), CPU_CORES)
        lake = Lake(folder / "lake", PIPELINE)
        return watched(sandbox, load, lake, self.times.interval_seconds, capacity, folder / "load")

    def hosts(self, sandbox: KafkaSandbox) -> Mapping[int, str]:
        """The declared hosts."""
        return sandbox.hosts

    def read_snapshot(self, path: Path) -> ReplicasSnapshot:
        """A snapshot of replicas."""
        return read_snapshot(path)

    def plan(self, snapshot: ReplicasSnapshot, noise: Mapping[str, float]) -> Plan:
        """By the settings that were given, but for a margin in ε that covers the measurements' noise."""
        aim = tuple(
            limit - min(MOST_MARGIN * limit, noise.get(name, 0.0))
            for name, limit in zip(RESOURCES, self.settings.epsilon, strict=True)
        )
        plan: Plan = planner_of(BALANCERS["replicas"], self.settings.strategy)(
            snapshot, replace(self.settings, epsilon=aim)
        )
        return plan

    def plan_text(self, plan: Plan, snapshot: ReplicasSnapshot) -> str:
        """Without the load, which the map has shown."""
        return plan_text(plan)

    def plan_bytes(self, plan: Plan) -> bytes:
        """A plan of replicas."""
        return plan_bytes(plan)

    def act(
        self, screen: DemoOutput, sandbox: KafkaSandbox, snapshot: ReplicasSnapshot, plan: Plan
    ) -> ReplicasReceipt:
        """Leader moves and copies, with a throttle."""
        from trimtab.act.replicas.load_check import ProgressMeter
        from trimtab.act.replicas.state import ReplicasExecutionSettings

        meter = ProgressMeter()

        def watch(state: ReplicasExecutionState) -> None:
            now = meter(state)
            screen.progress(f"{bar(now.bytes_copied / max(1, now.bytes_total))} {progress_text(now)}")

        def preview(forecast: ReplicasForecast) -> None:
            self.forecast_seconds.append(forecast.seconds)
            if forecast.seconds is not None:
                throttle = bytes_text(float(COPY_BYTES_PER_SECOND))
                screen.print_lines(
                    f"forecast: {duration_text(forecast.seconds)} with a throttle of {throttle}/s"
                )

        settings = ReplicasExecutionSettings(throttle=COPY_BYTES_PER_SECOND)
        receipt = balance_kafka(sandbox, plan, snapshot, sandbox.state.folder, settings, watch, preview)
        screen.progress(f"{receipt.status}: {self.spent_text(receipt)}", last=True)
        if abs(receipt.copied_bytes - plan.cost.bytes) > 0.01 * plan.cost.bytes and not receipt.left:
            screen.print_lines(
                f"{bytes_text(plan.cost.bytes)} were planned: partitions have been written to, and their "
                "oldest data removed, since they were sampled"
            )
        for outcome in receipt.left:
            screen.print_lines(f"{outcome.topic}-{outcome.partition} {outcome.state}: {outcome.reason}")
        return receipt

    def spent_text(self, receipt: ReplicasReceipt | None) -> str:
        """Moves, bytes and seconds."""
        return spent_text(receipt)

    def facts(self, receipt: ReplicasReceipt | None, ticks: Sequence[TruthTick]) -> Mapping[str, object]:
        """The price, and the forecast of each turn."""
        return {"spent": asdict(spent(receipt)), "forecast_seconds": self.forecast_seconds}


def balance_kafka(
    sandbox: KafkaSandbox,
    plan: Plan,
    snapshot: ReplicasSnapshot,
    folder: Path,
    settings: ReplicasExecutionSettings,
    watch: Callable[[ReplicasExecutionState], None] = lambda _: None,
    preview: Callable[[ReplicasForecast], None] | None = None,
) -> ReplicasReceipt:
    """Carry a plan out on a sandbox, journalled below `folder`; parameters as of `carry_out`."""
    from trimtab.act.replicas.executor import EXECUTOR
    from trimtab.act.replicas.load_check import ReplicaLoadCheck
    from trimtab.systems.kafka.client import open_admin
    from trimtab.systems.kafka.port import KafkaAdminPort

    with open_admin(sandbox.connection) as admin:
        port, sense = KafkaAdminPort(admin, time.time), ReplicaLoadCheck(plan, snapshot)
        receipt: ReplicasReceipt = carry_out(
            EXECUTOR, port, plan, plan_bytes(plan).decode(), settings, folder, watch, sense, preview
        )
        return receipt
