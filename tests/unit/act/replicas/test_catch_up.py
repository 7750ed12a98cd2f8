"""What is left of a copy, look by look."""

from dataclasses import replace

from trimtab.act.execution.port import Resumed
from trimtab.act.replicas.machine import ReplicasMachine, new_execution
from trimtab.act.replicas.port import ClusterObservation, ObservedReplica, PartitionPlacement, TopicPartition
from trimtab.act.replicas.reconcile import measured
from trimtab.act.replicas.state import (
    UNMEASURED,
    ReplicasExecutionSettings,
    ReplicaStep,
    ReplicaStepKind,
    ReplicaStepRecord,
    ReplicaStepState,
    StepPhase,
)

PARTITION = TopicPartition("t", 0)
STEP = ReplicaStep(1, ReplicaStepKind.COPY, StepPhase.COPY, PARTITION, (1, 2), (4, 2))


def look(record: ReplicaStepRecord, at: float, source: int, copied: int | None) -> ReplicaStepRecord:
    """The record after a look at a leader and a new copy of these sizes."""
    seen = ClusterObservation(
        at=at,
        cluster_id="c",
        controller=1,
        brokers={},
        placements={PARTITION: PartitionPlacement((4, 2, 1), 1, (1, 2))},
        reassignments={},
        copies={(PARTITION, 1): (ObservedReplica("/d0", source),)},
    )
    record = measured(record, seen, copied, at)
    return record if copied is None else replace(record, copied_bytes=copied)


def looks(*sizes: tuple[int, int]) -> ReplicaStepRecord:
    """The record after such looks, ten seconds apart."""
    record = ReplicaStepRecord(STEP, ReplicaStepState.MOVING)
    for number, (source, copied) in enumerate(sizes):
        record = look(record, 10.0 * number, source, copied)
    return record


def test_fewer_bytes_left_is_nearer() -> None:
    """More copied than written: the latest observation is the nearest."""
    record = looks((1000, 0), (1100, 300), (1200, 600))
    assert (record.nearer_at, record.min_remaining_bytes) == (20.0, 600)
    assert record.written_bytes_per_second == 10.0


def test_more_bytes_copied_alone_is_not_nearer() -> None:
    """More written than copied: the first observation stays the nearest."""
    record = looks((1000, 0), (1100, 50), (1200, 100))
    assert (record.nearer_at, record.min_remaining_bytes, record.max_remaining_bytes) == (0.0, 1000, 1100)


def test_one_that_makes_up_for_a_bad_time_gets_nearer() -> None:
    """What is left has doubled and is falling again, still above the least: that counts."""
    record = looks((10_000, 0), (20_000, 10), (20_100, 5_000))
    assert record.nearer_at == 0.0  # one step down may be a burst of the throttle
    record = look(record, 30.0, 20_200, 18_000)
    assert record.nearer_at == 30.0


def test_a_copy_that_restarts_gets_a_new_timeout() -> None:
    """The destination lost its disk: what is left jumps, and that is no sign of a low throttle."""
    record = looks((1000, 0), (1000, 800), (1000, 10))
    assert (record.nearer_at, record.min_remaining_bytes) == (20.0, 990)


def test_time_in_which_the_destination_does_not_answer_does_not_count() -> None:
    """Bytes written meanwhile restart the measurement."""
    record = look(looks((1000, 0), (1100, 50)), 20.0, 1200, None)
    assert {name: getattr(record, name) for name in UNMEASURED} == UNMEASURED


def test_time_without_observations_does_not_count() -> None:
    """A resumed execution measures again, however long it was interrupted."""
    state = new_execution("c", [STEP], ReplicasExecutionSettings(), 0.0)
    state = state.with_records({1: looks((1000, 0), (1100, 50))})
    state = ReplicasMachine.absorb(state, Resumed(5000.0))
    assert state.records[0].nearer_at is None
    assert state.records[0].copied_bytes == 50
