"""Whole ticks against the protocol fake, through kafka-python's own client."""

import socket
import struct
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from kafka.admin import KafkaAdminClient

from simulate.kafka.cluster import cluster_of
from simulate.kafka.server import SimulatedKafkaServer
from simulate.kafka.state import PartitionName
from trimtab.observe.collect.sampler import RequestError, TickSample
from trimtab.observe.collect.settings import CapacitySettings, CollectSettings
from trimtab.observe.replicas.pipeline import KEYS, OF_MANY
from trimtab.systems.kafka.collector import KafkaCollector
from trimtab.systems.kafka.samples import AdminRequestSender

Row = dict[str, object]

EXPOSITION = b"""\
process_cpu_seconds_total 2
kafka_server_brokertopicmetrics_bytesin_total{topic="t"} 5
kafka_server_brokertopicmetrics_bytesin_total NaN
"""


@pytest.fixture
def server() -> Iterator[SimulatedKafkaServer]:
    """Four brokers in two racks, three partitions, one group."""
    cluster = cluster_of(4, racks=2)
    cluster.controller.create_topic("t", {0: [1, 2], 1: [2, 3], 2: [3, 1]}, size_bytes=60e6)
    cluster.groups["g"] = {PartitionName("t", 0): 17}
    with SimulatedKafkaServer(cluster) as running:
        yield running


@pytest.fixture
def asker(server: SimulatedKafkaServer) -> Iterator[AdminRequestSender]:
    """The way to the brokers."""
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap, reconnect_backoff_max_ms=100)
    yield AdminRequestSender(admin)
    admin.close()


def sample(
    asker: AdminRequestSender,
    settings: CollectSettings | None = None,
    capacity: CapacitySettings | None = None,
) -> TickSample:
    """One tick."""
    collector = KafkaCollector(
        asker, settings or CollectSettings(interval_seconds=6), capacity or CapacitySettings()
    )
    try:
        return collector.sample()
    finally:
        collector.close()


def rows(found: TickSample, kind: str) -> list[Row]:
    """Rows of one kind, in order."""
    return [row for batch in found.batches if batch.kind == kind for row in batch.rows()]


def test_a_tick_holds_every_kind_of_row_that_the_admin_interface_gives(asker: AdminRequestSender) -> None:
    """Placement, sizes, offsets and groups of a whole cluster, without an agent anywhere."""
    found = sample(asker)
    assert (found.answered, found.brokers, found.endpoints, found.problems) == (4, 4, 0, ())
    assert found.cluster == "simulated-cluster-0000"
    assert [(r["broker"], r["rack"], r["broker_state"]) for r in rows(found, "broker")] == [
        (1, "r1", "alive"),
        (2, "r2", "alive"),
        (3, "r1", "alive"),
        (4, "r2", "alive"),
    ]
    assert len(rows(found, "log_dir")) == 8
    sizes = {(r["broker"], r["partition"]): r["size_bytes"] for r in rows(found, "replica")}
    assert sizes == {(b, p): 60_000_000 for b, p in [(1, 0), (2, 0), (2, 1), (3, 1), (3, 2), (1, 2)]}
    offsets = [
        (r["partition"], r["leader"], r["start_offset"], r["end_offset"]) for r in rows(found, "partition")
    ]
    assert offsets == [(0, 1, 0, 60_000), (1, 2, 0, 60_000), (2, 3, 0, 60_000)]
    assert [(r["group"], r["partition"], r["committed_offset"]) for r in rows(found, "group")] == [
        ("g", 0, 17)
    ]
    assert found.rows == 4 + 8 + 6 + 3 + 1


def test_a_dead_broker_never_loses_the_others(
    server: SimulatedKafkaServer, asker: AdminRequestSender
) -> None:
    """Killed, then fenced by the controller: it is marked, and every other broker's rows are there."""
    before = sample(asker)
    server.do(lambda cluster: cluster.kill_broker(2))
    killed = sample(asker)
    server.advance(30)
    fenced = sample(asker)
    for found, state in ((killed, "unreachable"), (fenced, "fenced")):
        states = {r["broker"]: r["broker_state"] for r in rows(found, "broker")}
        assert states == {1: "alive", 2: state, 3: "alive", 4: "alive"}
        assert found.answered == 3
        kept = [row for row in rows(before, "replica") if row["broker"] != 2]
        assert [r["size_bytes"] for r in rows(found, "replica")] == [r["size_bytes"] for r in kept]
        assert len(found.problems) == 1
    assert "broker 2 is unreachable" in killed.problems[0]
    assert "broker 2 is fenced" in fenced.problems[0]
    leaders = {r["partition"]: (r["leader"], r.get("end_offset")) for r in rows(fenced, "partition")}
    assert leaders == {0: (1, 60_000), 1: (3, 60_000), 2: (3, 60_000)}


def test_a_broker_that_returns_or_joins_is_sampled_again(
    server: SimulatedKafkaServer, asker: AdminRequestSender
) -> None:
    """The collector needs no restart when the cluster changes."""
    server.do(lambda cluster: cluster.kill_broker(2))
    server.advance(30)
    assert sample(asker).answered == 3
    server.do(lambda cluster: cluster.start_broker(2))
    server.advance(30)
    for _ in range(50):
        if sample(asker).answered == 4:
            break
    assert sample(asker).answered == 4


def test_moves_in_flight_are_recorded(server: SimulatedKafkaServer, asker: AdminRequestSender) -> None:
    """The pipeline must know a replica that is still being copied."""
    server.do(lambda cluster: cluster.controller.reassign("t", 0, [4, 2]))
    found = sample(asker)
    (moving,) = [row for row in rows(found, "partition") if row.get("adding")]
    assert (moving["partition"], moving["adding"], moving["removing"]) == (0, [4], [1])
    # The pipeline leaves out what a row of these kinds should hold besides.
    for kind, values in OF_MANY.items():
        filled = {name for row in rows(found, kind) for name, value in row.items() if value is not None}
        assert filled - {*KEYS, "sampled_at", "received_at"} == set(values)


def test_a_broken_disk_is_marked(server: SimulatedKafkaServer, asker: AdminRequestSender) -> None:
    """An offline log dir is a row with that state."""
    server.do(lambda cluster: cluster.fail_log_dir(1, "/d1"))
    states = {(r["broker"], r["log_dir"]): r["dir_state"] for r in rows(sample(asker), "log_dir")}
    assert states[1, "/d1"] == "offline"
    assert states[1, "/d0"] == "online"


def test_declared_capacity_and_hosts_go_with_the_brokers(asker: AdminRequestSender) -> None:
    """Log dirs that share a file system get the declared disk instead of counting it twice."""
    found = sample(
        asker,
        CollectSettings(interval_seconds=6, cluster="orders", hosts={"1": "machine-1"}),
        CapacitySettings(cpu_cores=2.0, disk_bytes=400e6, brokers={"4": {"cpu_cores": 8.0}}),
    )
    assert found.cluster == "orders"
    first, *_, last = rows(found, "broker")
    assert (first["host"], first["cpu_capacity_cores"], last["cpu_capacity_cores"]) == ("machine-1", 2.0, 8.0)
    assert last["host"] == "127.0.0.1"
    dirs = [row for row in rows(found, "log_dir") if row["broker"] == 1]
    held = dict.fromkeys(("/d0", "/d1"), 0)
    for row in rows(found, "replica"):
        if row["broker"] == 1:
            held[str(row["log_dir"])] += int(str(row["size_bytes"]))
    assert sum(held.values()) == 120_000_000
    assert {row["log_dir"]: (row["disk_total_bytes"], row["disk_usable_bytes"]) for row in dirs} == {
        path: (200_000_000, 200_000_000 - size) for path, size in held.items()
    }


def test_metrics_of_some_brokers_only(asker: AdminRequestSender) -> None:
    """One exporter works, one has no Kafka metrics, one is down: each is reported, and the tick
    is complete.
    """

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            if self.path == "/kafka":
                self.wfile.write(EXPOSITION)

        def log_message(self, *_: object) -> None:
            return

    with HTTPServer(("127.0.0.1", 0), Handler) as exporter, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        threading.Thread(target=exporter.serve_forever, args=(0.01,), daemon=True).start()
        table = {
            "1": f"http://127.0.0.1:{exporter.server_port}/kafka",
            "2": f"http://127.0.0.1:{exporter.server_port}/other",
            "3": f"127.0.0.1:{closed.getsockname()[1]}",
        }
        found = sample(asker, CollectSettings(interval_seconds=6, prometheus=table))
        exporter.shutdown()
    assert (found.scraped, found.endpoints, found.dropped_values) == (2, 3, 1)
    problems = " ".join(found.problems)
    assert "metrics of broker 2: the endpoint answers without cpu_time_ns, bytes_in_total" in problems
    assert "metrics of broker 3: http://127.0.0.1:" in problems
    assert "metrics of broker 4: no endpoint is set for it" in problems
    cpu = {r["broker"]: r.get("cpu_time_ns") for r in rows(found, "broker")}
    assert cpu == {1: 2_000_000_000, 2: None, 3: None, 4: None}
    assert [(r["broker"], r["topic"], r["bytes_in_total"]) for r in rows(found, "topic_broker")] == [
        (1, "t", 5)
    ]


def test_an_unreachable_cluster_is_one_error(server: SimulatedKafkaServer, asker: AdminRequestSender) -> None:
    """All brokers dead: the tick fails within its time-out, and the next one may succeed."""
    for broker in (1, 2, 3, 4):
        server.do(lambda cluster, broker=broker: cluster.kill_broker(broker))  # type: ignore[misc]
    with pytest.raises(RequestError):
        sample(asker, CollectSettings(interval_seconds=6, timeout_seconds=0.5))


def test_an_old_cluster_is_sampled_without_its_fenced_brokers(asker: AdminRequestSender) -> None:
    """Kafka before 2.8 cannot describe its cluster: metadata names the living brokers, with a note."""

    class Old:
        def request(self, request: Any, broker: int | None, timeout_seconds: float) -> Any:
            if type(request).__name__ == "DescribeClusterRequest":
                raise RequestError("incompatible broker version")
            return asker.request(request, broker, timeout_seconds)

    collector = KafkaCollector(Old(), CollectSettings(interval_seconds=6), CapacitySettings())
    found = collector.sample()
    collector.close()
    assert (found.answered, found.brokers) == (4, 4)
    assert found.problems == ("brokers that are fenced are not known: incompatible broker version",)


def test_garbage_from_one_broker_costs_its_own_rows_only(asker: AdminRequestSender) -> None:
    """Any exception of the client over an answer becomes one broker's problem."""

    class Garbled:
        def __init__(self, admin: Any) -> None:
            self.inner = admin

        def __getattr__(self, name: str) -> Any:
            return getattr(self.inner, name)

        def send(
            self, request: Any, node_id: int | None = None, request_timeout_ms: int | None = None
        ) -> Any:
            if node_id == 3:
                raise struct.error("unpack requires a buffer of 4 bytes")
            return self.inner.send(request, node_id=node_id, request_timeout_ms=request_timeout_ms)

    asker._manager = Garbled(asker._manager)
    found = sample(asker)
    assert found.answered == 3
    assert {row["broker"] for row in rows(found, "replica")} == {1, 2}
    assert "broker 3 is unreachable: an answer that cannot be read" in found.problems[0]
