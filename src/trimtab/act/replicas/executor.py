"""The balancer `replicas` as those who carry plans out see it."""

from dataclasses import replace

from trimtab.act.execution.codec import StateCodec
from trimtab.act.executor import ExecutionSummary, Executor, NewestSnapshot, PreparedPlan
from trimtab.act.replicas.cordon import with_drained
from trimtab.act.replicas.figures import ReplicasForecast, forecast
from trimtab.act.replicas.load_check import ReplicaLoadCheck
from trimtab.act.replicas.machine import ReplicasMachine, new_execution
from trimtab.act.replicas.port import ClusterObservation, ClusterPort, ThrottleConfig, TopicPartition
from trimtab.act.replicas.prepare import (
    compare,
    require_min_in_sync,
    require_same_cluster,
    steps_of,
    topics_that_shrink,
)
from trimtab.act.replicas.settings import ReplicasExecutionSettings
from trimtab.act.replicas.state import ReplicasExecutionState
from trimtab.act.replicas.steps import UNMEASURED, ReplicaStep, ReplicaStepRecord
from trimtab.act.replicas.throttle import brokers_of, first_rate, warnings
from trimtab.model.replicas.plan import ReplicaMoveKind, ReplicasPlan
from trimtab.model.replicas.receipt import ReplicaOutcome, ReplicasReceipt


def observe(port: ClusterPort, plan: ReplicasPlan) -> tuple[str, ClusterObservation]:
    """See `Executor.observe`."""
    partitions = [TopicPartition(a.topic, a.partition) for a in plan.assignments]
    brokers = {b for a in plan.assignments for b in (*a.before, *a.after)}
    brokers |= {move.target for move in plan.moves if move.kind is ReplicaMoveKind.LOG_DIR}
    seen = port.observe(partitions, sorted(brokers), wide=True)
    require_same_cluster(plan, seen)
    if topics := topics_that_shrink(plan):
        require_min_in_sync(plan, port.min_in_sync(topics))
    return seen.cluster_id, seen


def prepare(plan: ReplicasPlan, observation: ClusterObservation, rebase: bool) -> PreparedPlan:
    """See `Executor.prepare`."""
    comparison = compare(plan, observation.placements, frozenset(observation.reassignments))
    comparison.require_unchanged("partitions have changed", rebase=rebase)
    return PreparedPlan(
        plan, observation.cluster_id, observation, comparison, steps_of(plan, observation, comparison)
    )


def forecast_of(
    prepared: PreparedPlan, settings: ReplicasExecutionSettings, sense: ReplicaLoadCheck | None
) -> ReplicasForecast:
    """See `Executor.forecast`."""
    load = None if sense is None else sense.without_drops()
    return forecast(prepared.steps, prepared.observation, prepared.observation.at, settings, load)


def warnings_before(
    port: ClusterPort, prepared: PreparedPlan, settings: ReplicasExecutionSettings, expected: ReplicasForecast
) -> list[str]:
    """See `Executor.warnings`: throttles that others have set."""
    rate = expected.rate_bytes_per_second
    # Without a throttle of ours nothing is replaced, and the right to read settings may be missing.
    default = ThrottleConfig() if rate is None else port.read_throttle([])
    return _of_throttles(port, prepared.steps, prepared.observation.alive, rate, default)


def resume_warnings(port: ClusterPort, state: ReplicasExecutionState) -> list[str]:
    """See `Executor.resume_warnings`: the brokers' own throttles; the rate for all brokers may be ours."""
    left = tuple(record.step for record in state.records if not record.ended)
    alive = port.observe((), (), wide=False).alive
    return _of_throttles(port, left, alive, _resumed_throttle(state, state.settings), ThrottleConfig())


def _resumed_throttle(state: ReplicasExecutionState, settings: ReplicasExecutionSettings) -> float | None:
    """The throttle that an execution is gone on with, by the load that it knew last."""
    left = [record.step for record in state.records if not record.ended and record.step.added]
    return first_rate(settings, state.load.headroom, brokers_of(left))


def _of_throttles(
    port: ClusterPort,
    steps: tuple[ReplicaStep, ...],
    alive: frozenset[int],
    rate: float | None,
    default: ThrottleConfig,
) -> list[str]:
    # Steps without copies are held back by no throttle.
    brokers = {broker for step in steps if step.added for broker in (*step.before, *step.added)}
    return warnings(rate, default, port.own_rates(brokers & alive)) if brokers else []


def with_settings(
    state: ReplicasExecutionState, settings: ReplicasExecutionSettings
) -> ReplicasExecutionState:
    """See `Executor.with_settings`: the pace begins anew."""
    return replace(
        state,
        settings=settings,
        initial_copies_per_broker=settings.initial_copies_per_broker,
        rate_bytes_per_second=_resumed_throttle(state, settings),
    )


def sense(
    plan: ReplicasPlan, newest: NewestSnapshot, settings: ReplicasExecutionSettings
) -> ReplicaLoadCheck | None:
    """See `Executor.sense`: the load of the newest snapshots; None where there is none."""
    first = newest()
    return None if first is None else ReplicaLoadCheck(plan, first[1], newest, drop=settings.skip_unneeded)


def receipt_of(entry: ExecutionSummary, state: ReplicasExecutionState, sense: object) -> ReplicasReceipt:
    """See `Executor.receipt`."""
    measured, source = None, ""
    if isinstance(sense, ReplicaLoadCheck):
        measured, source = sense.measures(state.records, entry.created_at)
    return ReplicasReceipt(
        measured=measured,
        measured_from=source,
        notes=state.notes,
        outcomes=tuple(_outcome(record) for record in state.records),
        **entry.receipt_fields(state),
    )


def _outcome(record: ReplicaStepRecord) -> ReplicaOutcome:
    step = record.step
    return ReplicaOutcome(
        topic=step.partition.topic,
        partition=step.partition.partition,
        before=step.before,
        after=step.after,
        bytes=step.bytes,
        kind=step.kind,
        moves=step.moves,
        **record.outcome_fields(),
    )


EXECUTOR = Executor(
    codec=StateCodec(
        ReplicasExecutionState, ReplicaStepRecord, frozenset({"copied_bytes", "advanced_at", *UNMEASURED})
    ),
    settings=ReplicasExecutionSettings,
    observe=observe,
    prepare=prepare,
    forecast=forecast_of,
    warnings=warnings_before,
    resume_warnings=resume_warnings,
    new_execution=new_execution,
    of_plan=with_drained,
    with_settings=with_settings,
    sense=sense,
    machine=ReplicasMachine,
    receipt=receipt_of,
)
