"""The balancer `bundles` as those who carry plans out see it."""

from trimtab.act.bundles.figures import forecast
from trimtab.act.bundles.load_check import BundleLoadCheck
from trimtab.act.bundles.machine import BundlesMachine, new_execution
from trimtab.act.bundles.port import BundlesObservation, BundlesPort
from trimtab.act.bundles.prepare import compare, require_same_cluster, steps_of
from trimtab.act.bundles.settings import UnloadSettings
from trimtab.act.bundles.state import BundlesExecutionState
from trimtab.act.bundles.steps import BundleStepKind, BundleStepRecord, BundleStepState
from trimtab.act.execution.codec import StateCodec
from trimtab.act.executor import ExecutionSummary, Executor, NewestSnapshot, PreparedPlan
from trimtab.model.bundles.plan import BundlePlan
from trimtab.model.bundles.range import namespace_of
from trimtab.model.bundles.receipt import BundleOutcome, BundlesReceipt


def observe(port: BundlesPort, plan: BundlePlan) -> tuple[str, BundlesObservation]:
    """See `Executor.observe`."""
    namespaces = dict.fromkeys(namespace_of(move.bundle) for move in plan.moves)
    seen = port.observe(tuple(namespaces), (), deep=True)
    require_same_cluster(plan, seen)
    return seen.cluster, seen


def prepare(plan: BundlePlan, observation: BundlesObservation, rebase: bool) -> PreparedPlan:
    """See `Executor.prepare`."""
    comparison = compare(plan, observation)
    comparison.require_unchanged("moves have been overtaken", rebase=rebase)
    return PreparedPlan(plan, observation.cluster, observation, comparison, steps_of(plan, comparison))


def warnings(
    port: BundlesPort, prepared: PreparedPlan, settings: UnloadSettings, expected: object
) -> list[str]:
    """See `Executor.warnings`: silent brokers, bundles with more clients than a minute allows."""
    found = []
    if prepared.observation.unreachable:
        broker, why = sorted(prepared.observation.unreachable.items())[0]
        found.append(
            f"{len(prepared.observation.unreachable)} brokers do not answer, {broker} for one ({why})"
        )
    over = [s for s in prepared.steps if s.sessions > settings.limits.max_sessions_per_minute]
    if over:
        found.append(
            f"{over[0].bundle} alone has {over[0].sessions} clients, more than "
            f"execution.bundles.max_sessions_per_minute ({settings.limits.max_sessions_per_minute}): they "
            "are "
            "disconnected at once, since a bundle moves as a whole"
        )
    return found


def sense(plan: BundlePlan, newest: NewestSnapshot, settings: UnloadSettings) -> BundleLoadCheck | None:
    """See `Executor.sense`: the load of the newest snapshots and of the brokers; None where none is known."""
    first = newest()
    return (
        BundleLoadCheck(plan, first[1], newest) if first is not None and settings.limits.check_load else None
    )


def receipt_of(entry: ExecutionSummary, state: BundlesExecutionState, sense: object) -> BundlesReceipt:
    """See `Executor.receipt`."""
    return BundlesReceipt(
        outcomes=tuple(_outcome(record) for record in state.records),
        notes=state.notes,
        **entry.receipt_fields(state),
    )


def _outcome(record: BundleStepRecord) -> BundleOutcome:
    step = record.step
    asked, done = record.started_at, record.ended_at
    moved = step.kind is BundleStepKind.UNLOAD and record.state is BundleStepState.DONE
    seconds = done - asked if moved and asked is not None and done is not None else None
    return BundleOutcome(
        kind=step.kind,
        moves=step.moves,
        **record.outcome_fields(),
        bundle=step.bundle,
        source=step.source,
        target=step.target,
        boundaries=step.boundaries,
        unloads=record.unloads,
        sessions=step.sessions * record.unloads,
        attempts=record.attempts,
        in_flight_seconds=seconds,
    )


EXECUTOR = Executor(
    codec=StateCodec(BundlesExecutionState, BundleStepRecord),
    settings=UnloadSettings,
    observe=observe,
    prepare=prepare,
    forecast=lambda prepared, settings, sense: forecast(prepared.steps, settings),
    warnings=warnings,
    new_execution=new_execution,
    sense=sense,
    machine=BundlesMachine,
    receipt=receipt_of,
)
