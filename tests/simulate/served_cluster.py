"""A simulated Kafka cluster with a lake, and real processes of `trimtab serve` that balance it.

The cluster answers in Kafka's protocol. A thread writes a snapshot of it into the lake at intervals, as the
pipeline does. Nothing in the processes is replaced.
"""

from __future__ import annotations

import datetime
import json
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pyarrow

from simulate.kafka.cluster import SimulatedKafka, cluster_of
from simulate.kafka.port import CLAIM
from simulate.kafka.server import SimulatedKafkaServer
from simulate.kafka.state import Happening
from support.replica_clusters import broker, partition, snapshot
from trimtab.api import write_snapshot
from trimtab.balancers import BALANCERS
from trimtab.files.store import Location, make_folder
from trimtab.model.documents import SnapshotReference
from trimtab.model.replicas.snapshot import ReplicasSnapshot
from trimtab.observe.lake.columns import arrow_schema
from trimtab.observe.lake.lake import Lake, microseconds, uploaded
from trimtab.observe.lake.manifest import Manifest, ManifestEntry, publish_manifest
from trimtab.observe.lake.parquet import write_rows

ROOT = Path(__file__).parents[2]
CAPACITY = (10.0, 1e10, 1e8, 1e8)
MEBIBYTE = 1 << 20
ELSEWHERE = ("unshare", "--user", "--map-root-user", "--pid", "--fork", "--mount-proc")
"""Runs a command with process numbers of its own, so that `host_id` differs."""


def can_be_elsewhere() -> bool:
    """Whether this machine allows processes with numbers of their own."""
    try:
        return subprocess.run([*ELSEWHERE, "true"], check=False, capture_output=True).returncode == 0
    except FileNotFoundError:
        return False


def imbalance_rows(found: ReplicasSnapshot, at: datetime.datetime) -> list[dict[str, object]]:
    """Rows of the table `imbalance`: the same loads as samples of the live brokers would show them."""
    measured, loads = found.imbalance(), found.broker_load()
    live = [row for row, counted in enumerate(measured.counted) if counted.any()]
    rows = []
    for column, resource in enumerate(measured.resources):
        brokers = [
            {
                "broker": int(found.brokers.id[row]),
                "load": float(loads[row, column]),
                "capacity": float(found.brokers.capacity[row, column]),
                "usage": float(measured.usage[row, column]),
                "share": float(loads[row, column] / max(loads[live, column].sum(), 1e-9)),
                "deviation": float(measured.deviation[row, column]),
            }
            for row in live
        ]
        figures = {"sigma": measured.sigma, "worst_deviation": measured.worst_deviation}
        rows.append(
            {
                "cluster": found.reference.cluster,
                "tick": at,
                "resource": resource,
                "brokers": len(live),
                "complete": True,
                "measured": True,
                "mean": float(measured.mean[column]),
                **{name: float(values[column]) for name, values in figures.items()},
                "peak_usage": float(measured.peak_usage[column]),
                "traffic_collapse": False,
                "by_broker": brokers,
            }
        )
    return rows


def snapshot_of(cluster: SimulatedKafka, loads: Mapping[str, float], taken_at: float) -> ReplicasSnapshot:
    """The cluster as a pipeline would show it; `loads` are bytes per second of each topic's partitions."""
    partitions = []
    for one in cluster.partitions.values():
        load = loads[one.name.topic]
        in_sync = [replica for replica in one.in_sync if replica in one.settled_replicas]
        partitions.append(
            partition(
                one.name.topic,
                one.name.number,
                one.settled_replicas,
                leader=one.leader if one.leader in one.settled_replicas else None,
                in_sync=in_sync,
                load=(load / 2e7, one.size_bytes, load, 2 * load),
            )
        )
    brokers = [
        broker(one.id, one.rack, one.host, "alive" if one.active else "dead", CAPACITY)
        for one in cluster.brokers.values()
    ]
    found = snapshot(brokers, partitions)
    at = datetime.datetime.fromtimestamp(taken_at, datetime.UTC).isoformat().replace("+00:00", "Z")
    object.__setattr__(found, "reference", SnapshotReference(cluster.cluster_id, at, "0" * 64))
    return found


class Link:
    """A relay to a server on this machine that can be cut: nothing is refused then, and nothing arrives.

    Attributes
    ----------
    is_cut
        Bytes wait while this is true; they arrive late when it ends, as those of a network do.
    """

    def __init__(self, port: int) -> None:
        self.is_cut = False
        self._to = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets = [self._listener]
        self.port = int(self._listener.getsockname()[1])

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, name="link", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for one in self._sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.create_connection(("127.0.0.1", self._to))
                self._sockets += [near, far]
                for source, target in (near, far), (far, near):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                while self.is_cut:
                    time.sleep(0.05)
                target.sendall(data)
            target.shutdown(socket.SHUT_RDWR)


class ServedCluster:
    """Six simulated brokers, a lake, and instances of the service.

    Parameters
    ----------
    folder
        Of the lake, the settings and the state folders.
    settings
        Text of the section `[serve]`, and what follows it.
    balanced
        Whether the placement is even from the beginning.
    measured
        Whether the lake holds samples of the brokers too, so that effects are measured.
    lake
        A folder or the address of a store; None for a folder in `folder`.

    Attributes
    ----------
    lie
        By broker, the factor by which telemetry shows the load of the partitions that it leads; 1 elsewhere.
    """

    def __init__(
        self,
        folder: Path,
        settings: str,
        *,
        speed: float = 4.0,
        balanced: bool = True,
        measured: bool = False,
        lake: Location | None = None,
    ) -> None:
        self.folder = folder
        self.measured = measured
        self.lie: dict[int, float] = {}
        self.cluster = cluster_of(6, racks=3, copy_bytes_per_second=20e6)
        self.loads: dict[str, float] = {}
        for number in range(24):
            first = number % 6 if balanced else number % 3
            replicas = [first + 1, (first + 1) % 6 + 1, (first + 2) % 6 + 1]
            self.cluster.controller.create_topic(f"t{number:02}", {0: replicas}, 40 * MEBIBYTE, 0.0)
            self.loads[f"t{number:02}"] = 1e6
        self.server = SimulatedKafkaServer(self.cluster, speed)
        self.lake: Any = folder / "lake" if lake is None else lake
        self.settings = folder / "trimtab.toml"
        self.section = settings
        self.publishing = True
        self.token = ""
        """Token of calls; empty for none."""
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self._ports: dict[str, int] = {}
        self._begins: dict[str, int] = {}
        self._over = threading.Event()
        self._publisher = threading.Thread(target=self._publish, name="publisher", daemon=True)

    def __enter__(self) -> Self:
        self.server.__enter__()
        self.settings.write_text(
            f'[clusters.sim]\naddress = "kafka://{",".join(self.server.bootstrap)}"\n'
            "[execution]\npoll_interval_seconds = 0.2\ncheck_interval_seconds = 1.0\n"
            f"unreachable_timeout_seconds = 20\n{self.section}\n",
            encoding="utf-8",
        )
        self._publisher.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in list(self.processes):
            self.kill(name)
        self._over.set()
        self._publisher.join()
        self.server.__exit__(kind, error, trace)

    def _publish(self) -> None:
        lake = Lake(self.lake, BALANCERS["replicas"].pipeline())
        folder = lake.snapshots / lake.snapshot_folder(self.cluster.cluster_id).name
        make_folder(folder)
        manifest = Manifest()
        while not self._over.is_set():
            if self.publishing:
                now = time.time()
                at = datetime.datetime.fromtimestamp(now, datetime.UTC)
                found = self.server.do(partial(self._shown, taken_at=now))
                if self.measured:
                    manifest = self._add_samples(lake, manifest, found, at)
                with uploaded(folder / f"{at:%Y-%m-%dT%H:%M:%S.%fZ}") as path:
                    write_snapshot(found, path)
            self._over.wait(1.0)

    def _shown(self, cluster: SimulatedKafka, taken_at: float) -> ReplicasSnapshot:
        factors = {one.name.topic: self.lie.get(one.leader or 0, 1.0) for one in cluster.partitions.values()}
        loads = {topic: load * factors[topic] for topic, load in self.loads.items()}
        return snapshot_of(cluster, loads, taken_at)

    def _add_samples(
        self, lake: Lake, manifest: Manifest, found: ReplicasSnapshot, at: datetime.datetime
    ) -> Manifest:
        instant = microseconds(at)
        path = f"imbalance/{instant}"
        schema = arrow_schema(lake.balancer.tables["imbalance"])
        rows = pyarrow.Table.from_pylist(imbalance_rows(found, at), schema=schema)
        write_rows(lake.tables / path / "rows.parquet", rows)
        entry = ManifestEntry(path, instant, instant + 1, instant, instant)
        entries = (*manifest.tables.get("imbalance", ()), entry)
        return publish_manifest(lake.tables, replace(manifest, tables={"imbalance": entries}))

    def kill_broker(self, number: int) -> None:
        """The process of a broker is gone at once."""
        self.server.do(lambda cluster: cluster.kill_broker(number))

    def start_broker(self, number: int) -> None:
        """Start a dead broker again."""
        self.server.do(lambda cluster: cluster.start_broker(number))

    # ------------------------------------------------------------ instances

    def start(
        self, name: str, *, elsewhere: bool = False, environment: Mapping[str, str] | None = None
    ) -> None:
        """Start an instance of the service with a state folder and a port of its own.

        Parameters
        ----------
        elsewhere
            Whether others take it for a process of another machine: it has process numbers of its own.
        environment
            Further variables of the process.
        """
        path = self.folder / f"{name}.log"
        self._begins[name] = len(self.log(name)) if path.exists() else 0
        log = open(self.folder / f"{name}.log", "ab")  # noqa: SIM115 - it belongs to the process
        paths = [str(ROOT / "src"), *map(str, sorted((ROOT / "packages").glob("*/src")))]
        self.processes[name] = subprocess.Popen(
            [
                *(ELSEWHERE if elsewhere else ()),
                sys.executable, "-m", "trimtab", "serve", "--settings", str(self.settings),
                "--lake", str(self.lake), "--set", f'serve.instance="{name}"',
                "--set", f'clusters.sim.client_id="{name}"',
                "--listen", f"127.0.0.1:{self._ports.setdefault(name, free_port())}",
            ],
            start_new_session=True,
            env={
                **os.environ,
                "TRIMTAB_STATE": str(self.folder / name),
                "PYTHONPATH": ":".join(paths),
                **(environment or {}),
            },
            stdout=log,
            stderr=log,
        )  # fmt: skip
        log.close()

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        """Send a signal to an instance; SIGKILL also waits for its end."""
        process = self.processes[name]
        os.killpg(process.pid, number)
        if number == signal.SIGKILL:
            process.wait()
            del self.processes[name]

    def url(self, name: str) -> str:
        """Address of an instance that answers, as it printed it last."""

        def found() -> list[str]:
            return re.findall(r"serves (http://\S+);", self.log(name)[self._begins[name] :])

        self.wait_for("the address of the service", found)
        return found()[-1]

    def call(self, name: str, method: str, path: str, body: object = None) -> Any:
        """Call the API of an instance; returns the decoded answer, or the bytes of another type.

        Raises
        ------
        urllib.error.HTTPError
            If the status is 400 or more.
        """
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        request = urllib.request.Request(f"{self.url(name)}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            content = answer.read()
        return json.loads(content) if "json" in answer.headers.get("Content-Type", "") else content

    def log(self, name: str) -> str:
        """What an instance printed."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8")

    # ------------------------------------------------------------ what happened

    def decisions(self, name: str) -> list[dict[str, Any]]:
        """Decisions of the journal as an instance has it, oldest first."""
        path = self.folder / name / "serve" / "serve.sqlite"
        if not path.exists():
            return []
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10)) as db:
            try:
                rows = db.execute("SELECT record FROM decisions ORDER BY number").fetchall()
            except sqlite3.OperationalError:
                return []
        return [json.loads(row[0]) for row in rows]

    def kinds(self, name: str, *kinds: str) -> list[dict[str, Any]]:
        """Decisions of some kinds."""
        return [one for one in self.decisions(name) if one["kind"] in kinds]

    def wait_for(self, what: str, holds: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait until something holds.

        Raises
        ------
        AssertionError
            If it does not in time; with the decisions and logs of all instances.
        """
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                texts = [
                    f"--- {path.stem}\n{path.read_text(encoding='utf-8')[-3000:]}\n"
                    + "\n".join(f"{one['kind']}: {one['reason']}" for one in self.decisions(path.stem)[-20:])
                    for path in sorted(self.folder.glob("*.log"))
                ]
                raise AssertionError(f"within {seconds:g} s not seen: {what}\n" + "\n".join(texts))
            time.sleep(0.1)

    def moves(self) -> int:
        """Number of reassignments that anybody has asked for."""
        return self.server.do(lambda cluster: sum(1 for one in cluster.history if one.verb == "reassign"))

    def orders(self) -> list[Happening]:
        """Changes that instances of the service have made, without those of their claims."""
        verbs = ("reassign", "cancel", "elect", "move_log_dir", "configure")

        def is_claim(one: Happening) -> bool:
            if one.verb != "configure":
                return False
            names = [change[0] if isinstance(change, tuple) else change for change in one.detail]
            return all(str(name).startswith(CLAIM) for name in names)

        return self.server.do(
            lambda cluster: [
                one
                for one in cluster.history
                if one.actor in self._begins and one.verb in verbs and not is_claim(one)
            ]
        )

    def left_over(self) -> list[str]:
        """Reassignments, throttles and claims that are in the cluster now."""

        def look(cluster: SimulatedKafka) -> list[str]:
            flying = [f"reassignment of {one.name}" for one in cluster.partitions.values() if one.reassigning]
            configs = [
                f"{kind.name} {name}: {key}={value}"
                for (kind, name), values in cluster.configs.items()
                for key, value in values.items()
                if value and ("throttle" in key or key.startswith(CLAIM))
            ]
            return flying + configs

        return self.server.do(look)

    def is_whole(self) -> bool:
        """Whether every partition has all its replicas in sync on running brokers."""
        return self.server.do(
            lambda cluster: all(
                sorted(one.in_sync) == sorted(one.replicas) and not one.reassigning
                for one in cluster.partitions.values()
            )
        )


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])
