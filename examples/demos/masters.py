"""The demo of masters: a node is killed, its masterships pile up elsewhere, and are spread again."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from demos.screen import DemoOutput
from demos.turn import DemoPipeline, carry_out
from trimtab.act.masters import EXECUTOR, TransferSettings
from trimtab.files.masters.formats import PLAN_FORMAT as PLANS
from trimtab.files.masters.formats import SNAPSHOT_FORMAT as SNAPSHOTS
from trimtab.files.masters.settings import MastersSettings
from trimtab.lab.sandbox.masters.clients import StoreClients
from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab.model.errors import SandboxError
from trimtab.model.load import imbalance
from trimtab.model.masters import NO_MASTER, MastersSnapshot
from trimtab.observe.collect.sampler import RequestError, lake_sink
from trimtab.observe.collect.settings import CollectSettings
from trimtab.observe.lake.lake import Lake
from trimtab.observe.masters.pipeline import PIPELINE, MastersPipelineSettings
from trimtab.plan.masters.trim import plan_masters
from trimtab.report.charts import FAINT, INK, save_figure, style_axes
from trimtab.report.masters import plan_text
from trimtab.report.tables import table_lines
from trimtab.systems.paxos.client import PaxosConnection, PaxosNodes
from trimtab.systems.paxos.collector import COLLECTING, PaxosCollector
from trimtab.systems.paxos.port import PaxosPort

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.axes import Axes

    from trimtab.lab.sandbox.masters.sandbox import MastersSandboxState


class StoreLoad:
    """Producers and consumers of every group, until they are told to stop.

    Attributes
    ----------
    acknowledged
        When each message was acknowledged (seconds since 1970), and how long it had waited for that.
    """

    def __init__(self, state: MastersSandboxState, seed: int, rate: float) -> None:
        self._clients, self._rate = StoreClients(state.cluster, seed), rate
        self.acknowledged: list[tuple[float, float]] = []
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> tuple[int, int]:
        """Stop, and read everything back; messages acknowledged, and messages in the logs.

        Raises
        ------
        Violation
            If one is missing, or stands twice or out of its producer's order.
        """
        self._ended.set()
        self._thread.join()
        if self._failure is not None:
            raise self._failure
        ledgers = self._clients.ledgers.values()
        return sum(sum(one.acknowledged.values()) for one in ledgers), sum(one.audit() for one in ledgers)

    def longest(self, started: float, ended: float) -> float:
        """The longest that a message waited which was acknowledged in a period."""
        return max((wait for at, wait in self.acknowledged if started <= at <= ended), default=0.0)

    def _run(self) -> None:
        try:
            asyncio.run(self._work())
        except BaseException as error:
            self._failure = error

    async def _work(self) -> None:
        clients = self._clients

        def summary() -> None:
            self.acknowledged.append((time.time(), clients.waits[-1]))

        async with asyncio.TaskGroup() as tasks:
            for topic in clients.ledgers:
                tasks.create_task(clients.produce(topic, self._rate, summary))
                tasks.create_task(clients.consume(topic, 60.0))
            await asyncio.to_thread(self._ended.wait)
            clients.stopping.set()
        for topic in clients.ledgers:
            await clients.read_all(topic, 60.0)


class StoreSampling:
    """Samples of a store, landed in a lake and kept for a picture.

    Attributes
    ----------
    masters
        When each tick was (seconds since 1970), and of how many groups each node was master.
    queries
        The same for the queries that each node has answered since its process began.
    """

    def __init__(self, nodes: PaxosNodes, lake: Lake, interval_seconds: float) -> None:
        self._collector, self._lake = PaxosCollector(nodes, CollectSettings()), lake
        self._nodes, self._interval = len(nodes.configuration.addresses), interval_seconds
        self.masters: list[tuple[float, list[int]]] = []
        self.queries: list[tuple[float, list[int]]] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """No more samples."""
        self._ended.set()
        self._thread.join()

    def until(self, holds: Callable[[list[int]], bool], timeout_seconds: float) -> float | None:
        """Wait until masters by node are so; when they were seen so, or None if they were not in time."""
        end = time.time() + timeout_seconds
        while time.time() < end:
            if self.masters and holds(self.masters[-1][1]):
                return self.masters[-1][0]
            time.sleep(0.05)
        return None

    def _run(self) -> None:
        with lake_sink(self._lake.raw, COLLECTING.columns) as landing:
            while not self._ended.is_set():
                tick = time.time()
                try:
                    sample = self._collector.sample()
                except RequestError:
                    pass
                else:
                    landing.write(sample.batches, sample.cluster, datetime.fromtimestamp(tick, UTC))
                    self._note(tick, list(sample.rows_of("paxos_group")))
                self._ended.wait(max(0.0, tick + self._interval - time.time()))

    def _note(self, tick: float, rows: list[dict[str, Any]]) -> None:
        masters, queries = [0] * self._nodes, [0] * self._nodes
        for row in rows:
            masters[row["node"]] += row["holds"]
            queries[row["node"]] += row["stored_total"] + row["pulls_total"]
        self.masters.append((tick, masters))
        self.queries.append((tick, queries))


COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9")


def draw_picture(
    out: Path,
    masters: Sequence[tuple[float, Sequence[int]]],
    queries: Sequence[tuple[float, Sequence[int]]],
    acknowledged: Sequence[tuple[float, float]],
    events: Mapping[str, float],
) -> tuple[Path, Path]:
    """Draw three panels, one above the other, over the same seconds.

    Parameters
    ----------
    masters, queries
        When, and by node: of how many groups it is master; queries answered since its process began.
    acknowledged
        When a message was acknowledged, and how long it had waited.
    events
        What happened when.
    """
    from matplotlib.figure import Figure

    begun = masters[0][0]
    figure = Figure(figsize=(10, 7), layout="constrained", facecolor="white")
    panels = figure.subplots(3, 1, sharex=True)
    at = [when - begun for when, _ in masters]
    for node in range(len(masters[0][1])):
        colour = COLOURS[node % len(COLOURS)]
        panels[0].step(at, [counts[node] for _, counts in masters], where="post", color=colour, linewidth=1.8,
                       label=f"node {node}")  # fmt: skip
        rates = [
            # A node that was started again counts from 0.
            max(0, now[node] - before[node]) / (then - when)
            for (when, before), (then, now) in pairwise(queries)
        ]
        panels[1].step(at[1:], rates, color=colour, linewidth=1.4)
    waits = sorted((when - begun, wait) for when, wait in acknowledged)
    panels[2].plot([one for one, _ in waits], [max(wait, 1e-4) for _, wait in waits], ",", color=INK)
    panels[2].set_yscale("log")
    panels[2].yaxis.set_major_formatter(lambda value, _: f"{value:g} s")
    titles = ("groups of which a node is master", "queries a second that it answers",
              "what each message waited for its acknowledgement")  # fmt: skip
    for axes, title in zip(panels, titles, strict=True):
        style_axes(axes)
        axes.set_title(title, loc="left", fontsize=9.5, color=INK)
        _events(axes, {name: when - begun for name, when in events.items()}, named=axes is panels[0])
    panels[0].legend(
        fontsize=8, frameon=False, loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=len(masters[0][1])
    )
    panels[0].set_ylim(bottom=0, top=1.15 * max(max(counts) for _, counts in masters))
    panels[2].set_xlabel("seconds of the demo", fontsize=8, color=FAINT)
    return save_figure(figure, out, "demo-masters")


def _events(axes: Axes, events: Mapping[str, float], *, named: bool) -> None:
    for name, when in events.items():
        axes.axvline(when, color=FAINT, linewidth=0.8, linestyle=(0, (2, 2)))
        if named:
            axes.text(when, 0.97, f"{name} ", transform=axes.get_xaxis_transform(), fontsize=7.5, color=FAINT,
                      va="top", ha="right", rotation=90)  # fmt: skip


STEPS: Final = 8
NODES: Final = 3
GROUPS: Final = 12
VICTIM: Final = 0
RATE: Final = 15.0
"""Messages a second of each group's producer."""
TIMEOUT_SECONDS: Final = 120.0


@dataclass(frozen=True)
class MastersDemoTimes:
    """Seconds: of a lease, between two samples, and of each measurement."""

    lease_seconds: float
    interval_seconds: float
    measured_seconds: float


TIMES: Final = MastersDemoTimes(8.0, 1.0, 30.0)
QUICK: Final = MastersDemoTimes(4.0, 1.0, 10.0)


def run(screen: DemoOutput, out: Path, seed: int, settings: MastersSettings, *, quick: bool) -> bool:
    """The whole story; whether masters were spread, and transfers cost clients less than a death."""
    pace = QUICK if quick else TIMES
    screen.step(f"Start {NODES} nodes with {GROUPS} groups, and clients of every group")
    with TemporaryDirectory(prefix="trimtab-masters-") as name:
        folder = Path(name)
        pipeline = DemoPipeline(
            folder / "spark", MastersPipelineSettings(load_window_seconds=pace.measured_seconds)
        )
        try:
            with MastersSandbox.start(
                NODES, GROUPS, lease_seconds=pace.lease_seconds, folder=folder / "sandbox"
            ) as sandbox:
                screen.print_lines(
                    f"real processes on this machine, L = {pace.lease_seconds:g} s; what is acknowledged is "
                    "on the disks of a majority"
                )
                return _summary(screen, out, seed, settings, pace, sandbox, pipeline, folder)
        finally:
            pipeline.close()


def _summary(
    screen: DemoOutput,
    out: Path,
    seed: int,
    settings: MastersSettings,
    times: MastersDemoTimes,
    sandbox: MastersSandbox,
    pipeline: DemoPipeline,
    folder: Path,
) -> bool:
    sandbox.publish([NO_MASTER] * GROUPS)
    screen.print_lines(
        "an empty preferred map is published: no group has a preferred node, so a node that comes back takes "
        "no\n"
        "masterships back. With the sandbox's own map it would take back its own after a lease"
    )
    nodes = PaxosNodes(PaxosConnection(sandbox.state.configuration(VICTIM)))
    lake = Lake(folder / "lake", PIPELINE)
    watch = StoreSampling(nodes, lake, times.interval_seconds)
    load = StoreLoad(sandbox.state, seed, RATE)
    try:
        screen.step("Load them")
        # On a busy machine the first sample may come later than the end of a short measurement.
        awaited(watch, lambda by: sum(by) == GROUPS, "two minutes after the start")
        time.sleep(times.measured_seconds)
        usual = _quantiles(load, time.time() - times.measured_seconds, time.time())
        screen.print_lines(
            f"{GROUPS * RATE:.0f} messages/s, all read by consumers; acknowledged in {usual[0] * 1000:.1f} "
            f"ms in the median, 99 % within {usual[1] * 1000:.0f} ms; masters by node {watch.masters[-1][1]}"
        )
        screen.step(f"Kill node {VICTIM} with -9")
        killed, usual_masters = time.time(), watch.masters[-1][1]
        sandbox.kill(VICTIM)
        moved = awaited(watch, lambda by: by[VICTIM] == 0 and sum(by) == GROUPS, "two minutes after a death")
        time.sleep(2.0)
        failover = load.longest(killed, time.time())
        screen.print_lines(
            f"the others are masters of all {moved - killed:.1f} s later: {watch.masters[-1][1]}; the "
            f"longest wait of a message was {failover:.1f} s"
        )
        if heir_text(usual_masters, watch.masters[-1][1]):
            screen.print_lines(heir_text(usual_masters, watch.masters[-1][1]))
        screen.step("Start it again")
        restarted = time.time()
        sandbox.restart(VICTIM)
        time.sleep(times.lease_seconds + times.measured_seconds)
        before = watch.masters[-1][1]
        screen.print_lines(
            f"it is back, has caught up, and is master of nothing, as the map is empty: masters by node "
            f"{before}"
        )
        screen.step("Work out what each group costs, with Spark, and plan")
        planned = time.time()
        snapshot = _snapshot(pipeline, lake, nodes.cluster)
        settled = min(settings.cooldown_seconds, times.measured_seconds)
        plan = plan_masters(snapshot, replace(settings, cooldown_seconds=settled))
        screen.wide(plan_text(plan, snapshot))
        out.mkdir(parents=True, exist_ok=True)
        PLANS.write(plan, out / "plan.json")
        screen.step("Have the masterships taken over, under load")
        applied = time.time()
        receipt = carry_out(
            EXECUTOR,
            PaxosPort(nodes),
            plan,
            PLANS.to_bytes(plan).decode(),
            TransferSettings(),
            folder / "state",
            lambda state: None,
        )
        taken = time.time()
        longest = load.longest(applied, taken)
        waited = f"{longest * 1000:.0f} ms at most meanwhile (a death cost {failover:.1f} s)"
        screen.print_lines(
            f"{len(receipt.done)} of {len(plan.moves)} taken over in {taken - applied:.0f} s; a message "
            f"waited {waited}, and no client was told of an error"
        )
        screen.step("Did it help?")
        time.sleep(times.measured_seconds)
        after = watch.masters[-1][1]
        spread = {
            "before": queries_by_node(snapshot),
            "after": queries_by_node(_snapshot(pipeline, lake, nodes.cluster)),
        }
    finally:
        watch.stop()
        acknowledged, logged = load.stop()
    columns = [list(map(float, before)), list(map(float, after)), spread["before"], spread["after"]]
    uneven = peak_over_mean(columns)
    screen.wide("\n".join(_table(columns, uneven)))
    screen.print_lines(
        f"{acknowledged:,} messages were acknowledged, {logged:,} stand in the logs: none lost, none twice, "
        "each producer's in order"
    )
    screen.step("What remains")
    events = {f"node {VICTIM} killed": killed, "started again": restarted}
    events |= {"Spark at work": planned, "plan applied": applied}
    pictures = draw_picture(out, watch.masters, watch.queries, load.acknowledged, events)
    result: dict[str, Any] = {
        "masters": {"before": before, "after": after},
        "queries_per_second": spread,
        "queries_most_over_mean": dict(zip(spread, uneven[2:], strict=True)),
        "failover_seconds": moved - killed,
        "longest_wait_seconds": {"usual_p99": usual[1], "failover": failover, "transfers": longest},
        "transfers": len(receipt.done),
        "acknowledged": acknowledged,
        "logged": logged,
        "seed": seed,
    }
    (out / "result.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    screen.print_lines(
        f"{', '.join(map(str, pictures))}, plan.json and result.json in {out}; no process, no data"
    )
    return receipt.status == "finished" and max(after) < max(before) and longest < failover


def heir_text(before: Sequence[int], after: Sequence[int]) -> str:
    """Why the next node by number got all masterships of the dead one; empty if it did not.

    Nodes try in turn for a group without a master, a part of the renewal period apart. After the dead node's
    turn comes that of the next node (`trimtab_store.core.group`).
    """
    heir = (VICTIM + 1) % NODES
    if after[heir] - before[heir] != before[VICTIM] or not before[VICTIM]:
        return ""
    return (
        f"node {heir} got all {before[VICTIM]}: nodes try in turn for a group without a master, and after "
        f"node {VICTIM}'s turn comes node {heir}'s"
    )


def awaited(watch: StoreSampling, holds: Callable[[list[int]], bool], when: str) -> float:
    """When masters by node were seen so.

    Raises
    ------
    SandboxError
        If they were not in time, or no sample came.
    """
    seen = watch.until(holds, TIMEOUT_SECONDS)
    if seen is None:
        raise SandboxError(f"{when} some group had no master, or no sample came: a busy machine?")
    return seen


def _quantiles(load: StoreLoad, started: float, ended: float) -> tuple[float, float]:
    """Median and 99th percentile of waits in a period: of clients, which no sample of the pipeline sees."""
    waits = [wait for at, wait in load.acknowledged if started <= at <= ended] or [0.0]
    return float(np.quantile(waits, 0.5)), float(np.quantile(waits, 0.99))


def _snapshot(pipeline: DemoPipeline, lake: Lake, cluster: str) -> MastersSnapshot:
    """The snapshot of what has been sampled so far."""
    pipeline.run(lake, lambda line: None)
    return SNAPSHOTS.read(Path(str(lake.newest_snapshot(cluster))))


def queries_by_node(snapshot: MastersSnapshot) -> list[float]:
    """Queries a second of the groups that each node is master of."""
    found = [0.0] * len(snapshot.nodes)
    for group in snapshot.groups:
        if group.master != NO_MASTER:
            found[group.master] += group.queries_per_second
    return found


def peak_over_mean(columns: Sequence[Sequence[float]]) -> list[float]:
    """What the node with the most has over the mean, of each column of figures by node."""
    load = np.array(columns, dtype=np.float64).T
    names = tuple(map(str, range(len(columns))))
    found = imbalance(load, np.ones_like(load), np.ones(len(load), dtype=np.bool_), names)
    return [float(one) for one in found.peak_usage / np.maximum(found.mean, 1e-9)]


def _table(columns: Sequence[Sequence[float]], uneven: Sequence[float]) -> list[str]:
    """A row for each node, of masters and queries, before and after."""
    rows = [["node", "masters", "after", "queries/s", "after"]]
    rows += [[str(node), *(f"{column[node]:.0f}" for column in columns)] for node in range(NODES)]
    rows.append(["most over mean", *(f"{one:.2f}" for one in uneven)])
    return table_lines(rows, "lrrrr")
