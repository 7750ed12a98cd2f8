"""The demo of bundles: three Pulsar brokers, whose bundles lie where Pulsar put them, one of them too hot."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

from trimtab.files.bundles.plan import bundle_plan_bytes
from trimtab.files.bundles.snapshot import read_bundles_snapshot
from trimtab.lab.demo.bundles.disturbance import disturbance_table, disturbances, felt_by_all
from trimtab.lab.demo.bundles.world import balanced_capacity, uneven, watched
from trimtab.lab.demo.part import Demo, DemoTexts, DemoTimes
from trimtab.lab.demo.screen import DemoOutput, bar
from trimtab.lab.demo.turn import carry_out
from trimtab.lab.sandbox.pulsar.cluster import PulsarSandbox
from trimtab.lab.sandbox.pulsar.namespaces import create_namespaces
from trimtab.model.bundles.plan import BundlePlan
from trimtab.model.bundles.receipt import BundlesReceipt
from trimtab.model.bundles.snapshot import RESOURCES, BundlesSnapshot
from trimtab.observe.bundles.pipeline import PIPELINE, BundlesPipelineSettings
from trimtab.observe.lake import Lake
from trimtab.report.bundles.execution_cost import spent_text
from trimtab.report.bundles.renderer import plan_text
from trimtab.report.formats import bytes_text
from trimtab.systems.pulsar.admin import PulsarAdmin

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from trimtab.act.bundles.state import BundlesExecutionState
    from trimtab.lab.demo.bundles.disturbance import Disturbance
    from trimtab.lab.demo.sampling import SampledSandbox
    from trimtab.lab.sandbox.load import SandboxLoad
    from trimtab.lab.sandbox.truth import TruthTick
    from trimtab.model.bundles.settings import BundlesSettings

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
        from trimtab.act.bundles.figures import progress_of
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
