"""The demo of the service: a broker is killed, and `trimtab serve` heals the cluster without a hand."""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
import numpy as np

from demos.replicas import balanced_capacity
from demos.screen import DemoOutput
from demos.warm_up import begin_warm_up
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.kafka.runtime import LOAD_DRIVEN_CPU
from trimtab.lab.sandbox.kafka.topics import PROMPT_RETENTION, preload_topics, with_flat_disk
from trimtab.lab.sandbox.kafka.workload import skewed
from trimtab.lab.sandbox.load import SandboxLoad, failures_text
from trimtab.lab.sandbox.processes import SandboxProcess, end, free_ports, running, spawn, wait
from trimtab.model.errors import SandboxError
from trimtab.model.text import clock_text
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE
from trimtab.report.charts import BASELINE, FAINT, INK, LINE, OVERLOADED, save_figure, style_axes
from trimtab.report.comparison import heatmap_figure
from trimtab.report.formats import bytes_text
from trimtab.report.measured import MeasuredLoad, measured_between
from trimtab.serve.client import ServiceClient
from trimtab.serve.documents import DecisionRecord, ExecutionRecord, TargetStatus
from trimtab.systems.kafka.client import open_admin
from trimtab_common.errors import ConnectError
from trimtab_common.files import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from trimtab.lab.sandbox.kafka.workload import KafkaWorkload
    from trimtab.model.load import FloatArray

STEPS: Final = 7
CLUSTER: Final = "sandbox"
VICTIM: Final = 3
"""The broker that is killed."""
AFTER_SECONDS: Final = 15.0
"""Time after the loss, and after the return, before the service acts."""
HEALED_WITHIN_SECONDS: Final = 60.0
"""Goal for all replicas to be in sync, beside the waiting time and the time of the bytes."""
SHARE: Final = 0.75
"""Goal for the replicas of the returned broker, as a share of the mean of all brokers."""
COPY_BYTES_PER_SECOND: Final = 20_000_000
RATE: Final = 3_000_000.0
"""Bytes that producers send in a second, all together."""
FLAT_BYTES: Final = 4_000_000
"""Kept by each partition that is written to, so that moves stay short and loads comparable."""
CPU_CORES: Final = 0.35
MEASURED_SECONDS: Final = 15.0
"""Load before the kill, between healing and return, and at the end, for the map."""
EPSILON: Final = 0.1
PATIENCE_SECONDS: Final = 150.0
"""Longest wait for each step of the service; after it the demo fails."""
POLL_SECONDS: Final = 0.5


@dataclass
class ClusterLog:
    """Replicas in sync over time, as the cluster itself reports them.

    Attributes
    ----------
    at
        Seconds since 1970.
    in_sync, assigned
        Replicas by broker, one row an instant.
    missing
        Replicas that are assigned and not in sync, all brokers together.
    """

    brokers: tuple[int, ...]
    topics: tuple[str, ...]
    at: list[float] = field(default_factory=list)
    in_sync: list[list[int]] = field(default_factory=list)
    assigned: list[list[int]] = field(default_factory=list)
    missing: list[int] = field(default_factory=list)

    @contextlib.contextmanager
    def running(self, sandbox: KafkaSandbox) -> Any:
        """Record twice a second, in a thread, until the block is left."""
        ended = threading.Event()

        def run() -> None:
            while not ended.is_set():
                # A client that meets a killed broker is replaced.
                with contextlib.suppress(Exception), open_admin(sandbox.connection) as admin:
                    while not ended.wait(POLL_SECONDS):
                        self.add(time.time(), admin.describe_topics(list(self.topics)))

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            ended.set()
            thread.join(10)

    def add(self, at: float, topics: Sequence[Any]) -> None:
        """Count one description of all topics."""
        partitions = [one for topic in topics for one in topic["partitions"]]
        if len(topics) < len(self.topics) or not partitions:
            return
        counts = {
            name: [sum(one[name].count(broker) for one in partitions) for broker in self.brokers]
            for name in ("isr_nodes", "replica_nodes")
        }
        self.at.append(at)
        self.in_sync.append(counts["isr_nodes"])
        self.assigned.append(counts["replica_nodes"])
        self.missing.append(sum(len(set(one["replica_nodes"]) - set(one["isr_nodes"])) for one in partitions))

    def first(self, holds: Callable[[int], bool], after: float) -> float | None:
        """The first instant after a time at which something holds; takes the row."""
        return next((at for row, at in enumerate(self.at) if at > after and holds(row)), None)


@dataclass
class ServeDemo:
    """The cluster, the load, the service, and what is known of them."""

    screen: DemoOutput
    sandbox: KafkaSandbox
    load: SandboxLoad
    log: ClusterLog
    service: SandboxProcess
    planner: SandboxProcess
    client: ServiceClient
    lake: Lake
    folder: Path

    def wait(self, subject: str, holds: Callable[[], Any]) -> Any:
        """The first true answer; shows meanwhile what the service waits for.

        Raises
        ------
        SandboxError
            If there is none in time, or the load or the service has ended.
        """
        begun = time.monotonic()
        while not (found := holds()):
            self.load.require_running()
            if not running(self.service):
                raise SandboxError(f"trimtab serve has ended: {self._last_line()}")
            seconds = time.monotonic() - begun
            if seconds > PATIENCE_SECONDS:
                raise SandboxError(f"{subject}: not within {PATIENCE_SECONDS:.0f} s; {self._last_line()}")
            status = self.status()
            reason = status.waiting.reason if status else "no answer of the service yet"
            self.screen.progress(f"{seconds:.0f} s: {reason}")
            time.sleep(POLL_SECONDS)
        return found

    def watch(self, seconds: float) -> None:
        """Let the load go on for a while."""
        begun = time.monotonic()
        self.wait("the load", lambda: time.monotonic() > begun + seconds)

    def status(self) -> TargetStatus | None:
        """What the service says of the cluster; None where it does not answer."""
        with contextlib.suppress(ConnectError):
            for one in self.client.get("clusters", list[TargetStatus]):
                return one
        return None

    def execution(self, trigger: str) -> ExecutionRecord | None:
        """The execution that answered a trigger, once it has ended."""
        with contextlib.suppress(ConnectError):
            for one in self.client.get("executions", list[ExecutionRecord]):
                if one.trigger == trigger and one.ended_at is not None:
                    return one
        return None

    def measured(self, after: float, until: float) -> MeasuredLoad | None:
        """Loads of all live brokers between two times, by the service's own pipeline."""
        begin, last = (datetime.fromtimestamp(one, UTC) for one in (after, until))
        return measured_between(self.lake, CLUSTER, 6, begin, last)

    def _last_line(self) -> str:
        lines = (self.folder / "serve.log").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it wrote nothing"


def settings_text(sandbox: KafkaSandbox, workload: KafkaWorkload, port: int) -> str:
    """The settings of the service: short times, and the mode `act` where the demo needs it."""
    capacity = balanced_capacity(workload, len(sandbox.brokers), CPU_CORES)
    endpoints = "\n".join(f'{broker} = "{url}"' for broker, url in sandbox.prometheus_endpoints.items())
    hosts = "\n".join(f'{broker} = "{host}"' for broker, host in sandbox.hosts.items())
    return f"""\
[clusters.{CLUSTER}]
address = "kafka://{sandbox.bootstrap}"

[collect]
interval_seconds = 3
cluster = "{CLUSTER}"

[collect.prometheus]
{endpoints}

[collect.hosts]
{hosts}

[capacity]
cpu_cores = {capacity.cpu_cores}
network_in_bytes_per_second = {capacity.network_in_bytes_per_second:.0f}
network_out_bytes_per_second = {capacity.network_out_bytes_per_second:.0f}
disk_bytes = {2 * (capacity.disk_bytes or 0):.0f}

[replicas]
excluded_topics = ["__*"]

[execution]
throttle = "{COPY_BYTES_PER_SECOND}"

[pipeline]
window_seconds = 12
slide_seconds = 6

[serve]
observe = "run"
listen = "127.0.0.1:{port}"
interval_seconds = 10
settle_seconds = 10

[serve.broker_lost]
mode = "act"
after_seconds = {AFTER_SECONDS:.0f}

[serve.broker_added]
mode = "act"
after_seconds = {AFTER_SECONDS:.0f}

[serve.drift]
mode = "observe"
"""


@contextlib.contextmanager
def started(screen: DemoOutput, seed: int) -> Iterator[ServeDemo]:
    """The cluster, the service beside it, and the load; all of them end with the block."""
    workload = verified(with_flat_disk(skewed(seed, RATE), FLAT_BYTES))
    with contextlib.ExitStack() as stack:
        screen.step("Start a real Kafka cluster: six brokers, and a controller apart")
        # On a new machine the first plan would wait a minute for the compiler.
        planner = begin_warm_up("replicas")
        stack.callback(end, [planner], 0.0)
        properties = {**LOAD_DRIVEN_CPU, **PROMPT_RETENTION}
        sandbox = stack.enter_context(
            KafkaSandbox.start(6, properties=properties, print_progress=screen.print_lines)
        )
        folder = sandbox.state.folder / "serve"
        folder.mkdir()
        screen.step("Start the service, which starts the collector and the Spark pipeline itself")
        port = free_ports(1)[0]
        settings = folder / "trimtab.toml"
        settings.write_text(settings_text(sandbox, workload, port), encoding="utf-8")
        service = start_service(folder, settings)
        stack.callback(end, [service], 15.0)
        screen.print_lines(f"trimtab serve --settings {settings}: http://127.0.0.1:{port}")
        screen.step("Create topics where Kafka itself puts them, and let producers and consumers work")
        preload_topics(sandbox.connection, workload, None, screen.print_lines)
        load = stack.enter_context(
            SandboxLoad.start(sandbox.state.connection, workload, sandbox.state.folder / "load")
        )
        screen.print_lines(f"{workload.rates_text}; acks=all, each record has a number")
        log = ClusterLog(tuple(node.id for node in sandbox.brokers), workload.topic_names)
        stack.enter_context(log.running(sandbox))
        client = ServiceClient(f"http://127.0.0.1:{port}")
        lake = Lake(folder / "lake", PIPELINE)
        yield ServeDemo(screen, sandbox, load, log, service, planner, client, lake, folder)


def verified(workload: KafkaWorkload) -> KafkaWorkload:
    """The same load with a reader of each topic that is written to.

    Retention removes records before the end; those that somebody has read are accounted for.
    """
    topics = (
        replace(one, consumers=max(1, one.consumers)) if any(one.bytes_per_second) else one
        for one in workload.topics
    )
    return replace(workload, topics=tuple(topics))


def start_service(folder: Path, settings: Path) -> SandboxProcess:
    """The process of `trimtab serve`, with state and lake of its own."""
    places = [f"TRIMTAB_STATE={folder / 'state'}", f"TRIMTAB_LAKE={folder / 'lake'}"]
    command = [sys.executable, "-m", "trimtab", "serve", "--settings", str(settings)]
    return spawn(["/usr/bin/env", *places, *command], folder, folder / "serve.log", outlive=False)


def run(screen: DemoOutput, out: Path, seed: int, settings: object, *, quick: bool) -> bool:
    """Run the demo; True if every goal holds by measurement.

    Pictures and the result are kept in the folder `out`. `settings` and `quick` have no effect here: the
    service reads settings of its own, and its waiting times are short as they are.

    Raises
    ------
    TrimtabError
        If something that is needed is missing, or a step does not come within `PATIENCE_SECONDS`.
    """
    with started(screen, seed) as demo:
        log = demo.log
        demo.wait("a snapshot of all brokers", lambda: _is_complete(demo.status()))
        begun = time.time()
        demo.wait("the planner", lambda: not running(demo.planner))
        demo.watch(MEASURED_SECONDS)
        killed = time.time()
        held = log.assigned[-1][log.brokers.index(VICTIM)]
        screen.step(f"Kill broker {VICTIM} with -9, which holds {held} replicas")
        demo.sandbox.kill(VICTIM)
        place = log.brokers.index(VICTIM)
        healing = demo.wait("the execution that heals", lambda: demo.execution("broker_lost"))
        healed = demo.wait(
            "all replicas in sync",
            lambda: log.first(lambda row: not log.missing[row] and not log.assigned[row][place], killed),
        )
        copies_seconds = healing.bytes_total / COPY_BYTES_PER_SECOND
        limit = AFTER_SECONDS + HEALED_WITHIN_SECONDS + copies_seconds
        screen.print_lines(
            f"all replicas are in sync on five brokers {healed - killed:.0f} s after the kill: "
            f"{healing.steps} moves, {bytes_text(healing.bytes_total)}; goal {limit:.0f} s "
            f"({AFTER_SECONDS:.0f} s waiting time, {copies_seconds:.0f} s for the bytes, "
            f"{HEALED_WITHIN_SECONDS:.0f} s)"
        )
        demo.watch(MEASURED_SECONDS)
        screen.step(f"Start broker {VICTIM} again: it holds no replica")
        returned = time.time()
        demo.sandbox.restart(VICTIM)
        filling = demo.wait("the execution that gives it load", lambda: demo.execution("broker_added"))
        filled = demo.wait(
            "its share of the replicas",
            lambda: log.first(lambda row: not log.missing[row] and _share(log, row) >= SHARE, returned),
        )
        screen.print_lines(
            f"it holds {log.in_sync[-1][place]} replicas {filled - returned:.0f} s after its start: "
            f"{filling.steps} moves, {bytes_text(filling.bytes_total)}"
        )
        screen.step("Measure, stop the load, and read back every confirmed record")
        demo.watch(MEASURED_SECONDS)
        stopped = time.time()
        decisions = demo.client.get("decisions", list[DecisionRecord], limit=500)
        executions = demo.client.get("executions", list[ExecutionRecord])
        demo.load.stop()
        summary, check = demo.load.summary(), demo.load.read_back()
        spans = {
            "before": (begun - MEASURED_SECONDS, killed),
            "five brokers, healed": (healed, returned),
            f"broker {VICTIM} is back": (filled, stopped),
        }
        panels = [(name, demo.measured(*span)) for name, span in spans.items()]
        code = end_service(demo)
    screen.print_lines(
        f"{summary.produced_records:,} records produced, {summary.failed_records:,} given up by producers; "
        f"{failures_text(summary)}"
    )
    screen.print_lines(check.text("records"))
    screen.step("Did it help?")
    goals = {
        f"in sync again within {limit:.0f} s: {healed - killed:.0f} s": healed - killed <= limit,
        f"broker {VICTIM} holds {_share(log, -1):.0%} of the mean number of replicas, goal {SHARE:.0%}": (
            _share(log, -1) >= SHARE
        ),
        "no confirmed record is lost, doubled or out of order": check.ok,
        f"two executions, both finished: {', '.join(f'{one.trigger} {one.status}' for one in executions)}": (
            sorted(one.trigger for one in executions) == ["broker_added", "broker_lost"]
            and all(one.status == "finished" for one in executions)
        ),
        f"the service ends with exit code 0: {code}": code == 0,
    }
    for text, holds in goals.items():
        screen.print_lines(f"{'holds ' if holds else 'MISSED'}  {text}")
    for one in reversed(decisions):
        if one.kind in ("make_plan", "execute", "measured", "notify"):
            screen.print_lines(f"{clock_text(one.at)}  {one.kind:10}  {one.reason}")
    events = {f"broker {VICTIM} killed": killed, "all in sync": healed}
    events |= {"broker returns": returned, "has its share": filled}
    pictures = [*draw_timeline(out, log, events)]
    known = [(name, with_absent(one, log.brokers)) for name, one in panels if one is not None]
    title = f"Broker {VICTIM} is lost and returns; trimtab serve acts alone"
    pictures += save_figure(heatmap_figure(known, title, EPSILON), out, "heatmap")
    result = {
        "format": "trimtab/demo-serve-result/1",
        "seconds_to_sync": healed - killed,
        "limit_seconds": limit,
        "seconds_to_share": filled - returned,
        "share": _share(log, -1),
        "executions": [msgspec.to_builtins(one) for one in executions],
        "decisions": [msgspec.to_builtins(one) for one in decisions],
        "log": asdict(check),
        "load": asdict(summary),
        "goals": goals,
        "seed": seed,
    }
    write_atomically(out / "result.json", (json.dumps(result, indent=1) + "\n").encode())
    screen.print_lines(f"{', '.join(path.name for path in pictures)} and result.json in {out}")
    return all(goals.values())


def with_absent(measured: MeasuredLoad, brokers: tuple[int, ...]) -> MeasuredLoad:
    """The same figures with a row for each broker; those that were not there have no figures."""
    places = [brokers.index(int(one)) for one in measured.brokers]

    def widened(values: FloatArray) -> FloatArray:
        rows = np.full((len(values), len(brokers), values.shape[2]), np.nan)
        rows[:, places] = values
        return rows

    return replace(
        measured,
        brokers=brokers,
        hosts=("",) * len(brokers),
        usage=widened(measured.usage),
        deviation=widened(measured.deviation),
        load=None,
        capacity=None,
    )


def end_service(demo: ServeDemo) -> int | None:
    """SIGTERM to the service; its exit code, or None if it still runs after 15 s."""
    demo.service.signal(signal.SIGTERM)
    return wait(demo.service, 15.0)


def _is_complete(status: TargetStatus | None) -> bool:
    """Whether a snapshot knows the load of all partitions."""
    return status is not None and status.snapshot_coverage == 1.0


def _share(log: ClusterLog, row: int) -> float:
    """Replicas in sync on the killed broker, as a share of the mean of all brokers."""
    counts = log.in_sync[row]
    return counts[log.brokers.index(VICTIM)] * len(counts) / max(1, sum(counts))


def draw_timeline(out: Path, log: ClusterLog, events: dict[str, float]) -> tuple[Path, Path]:
    """The picture: replicas in sync by broker, and replicas that are not in sync, over time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 6), layout="constrained")
    upper, lower = figure.subplots(2, 1, sharex=True, height_ratios=(2, 1))
    begun = log.at[0]
    seconds = np.array(log.at) - begun
    counts = np.array(log.in_sync)
    for column, broker in enumerate(log.brokers):
        is_victim = broker == VICTIM
        colour, width = (OVERLOADED, 2.2) if is_victim else (BASELINE, 1.2)
        label = f"broker {VICTIM}" if is_victim else ("other brokers" if column == 0 else None)
        upper.step(seconds, counts[:, column], where="post", color=colour, linewidth=width, label=label)
    lower.step(seconds, log.missing, where="post", color=LINE, linewidth=1.6)
    upper.set_ylabel("replicas in sync", fontsize=9)
    lower.set_ylabel("replicas not in sync", fontsize=9)
    lower.set_xlabel("seconds", fontsize=9)
    for axes in (upper, lower):
        style_axes(axes)
        axes.set_ylim(bottom=0)
        for at in events.values():
            axes.axvline(at - begun, color=FAINT, linewidth=0.8, linestyle=":")
    top = 1.12 * counts.max()
    upper.set_ylim(0, top)
    for text, at in events.items():
        upper.text(at - begun + 1, 0.985 * top, text, fontsize=8, color=INK, va="top")
    upper.legend(fontsize=8, frameon=False, loc="lower left")
    figure.suptitle("A broker is killed, healed and given its share back by trimtab serve", fontsize=12)
    return save_figure(figure, out, "timeline")
