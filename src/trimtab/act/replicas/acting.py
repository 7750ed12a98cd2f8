"""The level `replicas` as those who carry plans out see it."""

from dataclasses import replace

from trimtab.act.acting import Acting, Entry, Newest, Prepared
from trimtab.act.execution.codec import Codec
from trimtab.act.replicas.cordon import with_drained
from trimtab.act.replicas.figures import Forecast, forecast
from trimtab.act.replicas.machine import ReplicasMachine, new_execution
from trimtab.act.replicas.port import ClusterPort, Observation, ThrottleConfig, TopicPartition
from trimtab.act.replicas.prepare import (
    compare,
    refuse_below_min_in_sync,
    refuse_if_elsewhere,
    steps_of,
    topics_that_shrink,
)
from trimtab.act.replicas.sensing import LoadSense
from trimtab.act.replicas.settings import ExecutionSettings
from trimtab.act.replicas.state import ExecutionState
from trimtab.act.replicas.steps import UNMEASURED, Step, StepRecord
from trimtab.act.replicas.throttle import brokers_of, first_rate, warnings
from trimtab.model.replicas.plan import MoveKind, ReplicasPlan
from trimtab.model.replicas.receipt import ReplicaOutcome, ReplicasReceipt


def look(port: ClusterPort, plan: ReplicasPlan) -> tuple[str, Observation]:
    """See `Acting.look`."""
    partitions = [TopicPartition(a.topic, a.partition) for a in plan.assignments]
    brokers = {b for a in plan.assignments for b in (*a.before, *a.after)}
    brokers |= {move.target for move in plan.moves if move.kind is MoveKind.LOG_DIR}
    seen = port.observe(partitions, sorted(brokers), wide=True)
    refuse_if_elsewhere(plan, seen)
    if topics := topics_that_shrink(plan):
        refuse_below_min_in_sync(plan, port.min_in_sync(topics))
    return seen.cluster_id, seen


def prepare(plan: ReplicasPlan, seen: Observation, rebase: bool) -> Prepared:
    """See `Acting.prepare`."""
    comparison = compare(plan, seen.placements, frozenset(seen.reassignments))
    comparison.refuse_if_changed("partitions have changed", rebase=rebase)
    return Prepared(plan, seen.cluster_id, seen, comparison, steps_of(plan, seen, comparison))


def forecast_of(prepared: Prepared, settings: ExecutionSettings, sense: LoadSense | None) -> Forecast:
    """See `Acting.forecast`."""
    load = None if sense is None else sense.without_drops()
    return forecast(prepared.steps, prepared.seen, prepared.seen.at, settings, load)


def warnings_before(
    port: ClusterPort, prepared: Prepared, settings: ExecutionSettings, expected: Forecast
) -> list[str]:
    """See `Acting.warnings`: throttles that others have set."""
    rate = expected.rate_bytes_per_second
    # Without a throttle of ours nothing is replaced, and the right to read settings may be missing.
    default = ThrottleConfig() if rate is None else port.read_throttle([])
    return _of_throttles(port, prepared.steps, prepared.seen.alive, rate, default)


def warnings_again(port: ClusterPort, state: ExecutionState) -> list[str]:
    """See `Acting.warnings_again`: the brokers' own throttles; the rate for all brokers may be ours."""
    left = tuple(record.step for record in state.records if not record.ended)
    alive = port.observe((), (), wide=False).alive
    return _of_throttles(port, left, alive, _rate_again(state, state.settings), ThrottleConfig())


def _rate_again(state: ExecutionState, settings: ExecutionSettings) -> float | None:
    """The throttle that an execution is gone on with, by the load that it knew last."""
    left = [record.step for record in state.records if not record.ended and record.step.added]
    return first_rate(settings, state.load.headroom, brokers_of(left))


def _of_throttles(
    port: ClusterPort,
    steps: tuple[Step, ...],
    alive: frozenset[int],
    rate: float | None,
    default: ThrottleConfig,
) -> list[str]:
    # Steps without copies are held back by no throttle.
    brokers = {broker for step in steps if step.added for broker in (*step.before, *step.added)}
    return warnings(rate, default, port.own_rates(brokers & alive)) if brokers else []


def with_settings(state: ExecutionState, settings: ExecutionSettings) -> ExecutionState:
    """See `Acting.with_settings`: the pace begins anew."""
    return replace(
        state,
        settings=settings,
        copies_per_broker=settings.copies_per_broker,
        rate_bytes_per_second=_rate_again(state, settings),
    )


def sense(plan: ReplicasPlan, newest: Newest, settings: ExecutionSettings) -> LoadSense | None:
    """See `Acting.sense`: the load of the newest snapshots; None where there is none."""
    first = newest()
    return None if first is None else LoadSense(plan, first[1], newest, drop=settings.drop_unneeded)


def receipt_of(entry: Entry, state: ExecutionState, sense: object) -> ReplicasReceipt:
    """See `Acting.receipt`."""
    measured, source = None, ""
    if isinstance(sense, LoadSense):
        measured, source = sense.measures(state.records, entry.created_at)
    return ReplicasReceipt(
        measured=measured,
        measured_from=source,
        notes=state.notes,
        outcomes=tuple(_outcome(record) for record in state.records),
        **entry.receipt_fields(state),
    )


def _outcome(record: StepRecord) -> ReplicaOutcome:
    step = record.step
    return ReplicaOutcome(
        topic=step.partition.topic,
        partition=step.partition.partition,
        before=step.before,
        after=step.after,
        bytes=step.bytes,
        kind=step.kind,
        moves=step.moves,
        **record.told(),
    )


ACTING = Acting(
    codec=Codec(ExecutionState, StepRecord, frozenset({"copied_bytes", "advanced_at", *UNMEASURED})),
    settings=ExecutionSettings,
    look=look,
    prepare=prepare,
    forecast=forecast_of,
    warnings=warnings_before,
    warnings_again=warnings_again,
    new_execution=new_execution,
    of_plan=with_drained,
    with_settings=with_settings,
    sense=sense,
    machine=ReplicasMachine,
    receipt=receipt_of,
)
