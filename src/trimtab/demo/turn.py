"""The three callables of a turn on a sandbox: observe by Spark, plan, act."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.files.plan import plan_bytes
from trimtab.files.replicas_snapshot import read_snapshot
from trimtab.plan.planner import plan_replicas

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from trimtab.act.settings import ExecutionSettings
    from trimtab.act.state import ExecutionState
    from trimtab.connect.settings import KafkaConnection
    from trimtab.demo.world import World
    from trimtab.model.plan import Plan
    from trimtab.model.receipt import Receipt
    from trimtab.model.replicas import ReplicasSnapshot
    from trimtab.model.settings import ReplicasSettings
    from trimtab.observe.pipeline import Run
    from trimtab.observe.settings import PipelineSettings


class Pipeline:
    """The Spark pipeline on one session, which begins to start at once, beside whatever else goes on.

    Parameters
    ----------
    scratch
        Folder for Spark's own files.
    settings
        What the tables depend on.
    """

    def __init__(self, scratch: Path, settings: PipelineSettings) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self.settings = settings
        self._pool = ThreadPoolExecutor(1, "spark")
        self._session: Future[SparkSession] = self._pool.submit(self._start, scratch)

    def ready(self, watch: Callable[[float], None] = lambda _: None) -> SparkSession:
        """The session, once it has started; `watch` is told how long that has been waited for."""
        begun = time.monotonic()
        while not self._session.done():
            watch(time.monotonic() - begun)
            time.sleep(0.1)
        return self._session.result()

    def run(self, world: World, say: Callable[[str], None]) -> Run:
        """Build all tables and a snapshot from everything sampled so far."""
        from trimtab.observe.pipeline import run_batch

        return run_batch(self.ready(), world.lake, self.settings, say=say)

    def close(self) -> None:
        """Stop Spark, if it has started."""
        from trimtab.observe.session import stop_session

        self._pool.shutdown(wait=True, cancel_futures=True)
        if self._session.done() and not self._session.cancelled() and self._session.exception() is None:
            stop_session([self._session.result()])

    @staticmethod
    def _start(scratch: Path) -> SparkSession:
        from trimtab.observe.session import SessionSettings, spark_session

        return spark_session(SessionSettings(short=True), scratch)


def newest(world: World) -> ReplicasSnapshot:
    """The snapshot that the pipeline wrote last."""
    return read_snapshot(world.lake.newest_snapshot())


def decide(snapshot: ReplicasSnapshot, settings: ReplicasSettings) -> Plan:
    """The plan."""
    return plan_replicas(snapshot, settings)


def carry_out(
    connection: KafkaConnection,
    plan: Plan,
    folder: Path,
    settings: ExecutionSettings,
    watch: Callable[[ExecutionState], None],
) -> Receipt:
    """Carry a plan out, journalled below `folder`.

    Parameters
    ----------
    watch
        Told the state after every event.
    """
    from trimtab.act.apply import Office, apply_plan
    from trimtab.act.kafka_admin import KafkaAdminPort
    from trimtab.connect.kafka import admin_client

    admin = admin_client(connection)
    office = Office(folder, time.time, time.sleep, lambda: secrets.token_hex(8))
    try:
        port = KafkaAdminPort(admin, time.time)
        return apply_plan(port, office, plan, plan_bytes(plan).decode(), settings, watch=watch)
    finally:
        office.close()
        admin.close()


def warm_up_planner() -> None:
    """Plan something tiny, so that the first real plan does not wait for the compiler."""
    import numpy as np

    from trimtab.model.replicas import Brokers, LogDirs, Partitions, ReplicasSnapshot
    from trimtab.model.settings import ReplicasSettings
    from trimtab.model.snapshot import Quality, SnapshotReference

    def indices(*values: object) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
        return np.array(values, dtype=np.int32)

    load = np.ones((2, 4))
    snapshot = ReplicasSnapshot(
        reference=SnapshotReference("warm-up", "1970-01-01T00:00:00Z", "0" * 64),
        quality=Quality(),
        brokers=Brokers(
            id=np.array([1, 2, 3]),
            host=("a", "b", "c"),
            rack=("a", "b", "c"),
            state=np.zeros(3, dtype=np.int8),
            capacity=np.full((3, 4), 4.0),
        ),
        log_dirs=LogDirs(indices(0, 1, 2), ("/",) * 3, np.zeros(3, dtype=np.int8), np.full(3, 4.0)),
        partitions=Partitions(
            topics=("t",),
            topic=indices(0, 0),
            number=indices(0, 1),
            replicas=indices([0, 1], [0, 1]),
            leader=indices(0, 0),
            in_sync=np.ones((2, 2), dtype=np.bool_),
            log_dir=indices([0, 1], [0, 1]),
            leader_load=load,
            follower_load=load,
        ),
    )
    plan_replicas(snapshot, ReplicasSettings())
