"""Carrying a plan of bundles out, from the plan's file to the receipt: what commands and demo call."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from trimtab.act.bundles.machine import new_execution
from trimtab.act.bundles.observation import BundlesSeen
from trimtab.act.bundles.performing import BundlesMachine
from trimtab.act.bundles.port import BundlesPort
from trimtab.act.bundles.prepare import (
    Comparison,
    compare,
    refuse_if_changed,
    refuse_if_elsewhere,
    steps_of,
)
from trimtab.act.bundles.settings import BundlesSettings
from trimtab.act.bundles.state import BundlesState
from trimtab.act.bundles.steps import BundleRecord, Step, StepKind, StepState
from trimtab.act.journal_entries import Entry
from trimtab.act.lease import Lease
from trimtab.act.office import Office
from trimtab.act.runner import Runner
from trimtab.model.bundle_plan import BundlePlan
from trimtab.model.bundle_range import namespace_of
from trimtab.model.bundle_receipt import BundleOutcome, BundlesReceipt
from trimtab.model.errors import ActError

Watch = Callable[[BundlesState], None]


@dataclass(frozen=True)
class PreparedBundles:
    """A plan held against the cluster, and the steps that are left of it."""

    plan: BundlePlan
    seen: BundlesSeen
    comparison: Comparison
    steps: tuple[Step, ...]


def prepare_bundles(port: BundlesPort, plan: BundlePlan, *, rebase: bool = False) -> PreparedBundles:
    """Hold a plan against the cluster as it is; changes nothing.

    Raises
    ------
    ActError
        If the plan is not for bundles, is for another cluster, or its bundles have changed since and `rebase`
        is not asked.
    """
    if plan.level != "bundles":
        raise ActError(f"the plan is of level {plan.level}, not bundles: apply it to a cluster of its own")
    namespaces = dict.fromkeys(namespace_of(move.bundle) for move in plan.moves)
    seen = port.observe(tuple(namespaces), (), deep=True)
    refuse_if_elsewhere(plan, seen)
    comparison = compare(plan, seen)
    refuse_if_changed(comparison, rebase=rebase)
    return PreparedBundles(plan, seen, comparison, steps_of(plan, comparison))


def warnings_of(prepared: PreparedBundles, settings: BundlesSettings, now: float) -> list[str]:
    """What is worth saying before it begins."""
    found = []
    taken_at = prepared.plan.snapshot.taken_at
    age = now - datetime.fromisoformat(taken_at).timestamp()
    if age > settings.pace.plan_age_seconds:
        found.append(
            f"the plan was made from loads of {taken_at}, {age / 3600:.1f} h ago: load may have moved since; "
            "make a new plan unless you know better"
        )
    if prepared.seen.silent:
        broker, why = sorted(prepared.seen.silent.items())[0]
        found.append(f"{len(prepared.seen.silent)} brokers do not answer, {broker} for one ({why})")
    over = [s for s in prepared.steps if s.sessions > settings.pace.sessions_per_minute]
    if over:
        found.append(
            f"{over[0].bundle} alone has {over[0].sessions} clients, more than "
            f"execution.bundles.sessions_per_minute ({settings.pace.sessions_per_minute}): they are "
            "disconnected at once, since a bundle moves as a whole"
        )
    return found


def begin_bundles(
    office: Office,
    prepared: PreparedBundles,
    settings: BundlesSettings,
    plan_text: str,
    facts: dict[str, Any] | None = None,
) -> int:
    """Write a new execution down; returns its id."""
    state = new_execution(prepared.seen.cluster, prepared.steps, settings, office.clock())
    return office.create(state, prepared.plan.snapshot.cluster, plan_text, facts)


def bundles_runner_of(
    office: Office,
    port: BundlesPort,
    lease: Lease | None,
    execution: int,
    *,
    watch: Watch | None = None,
    settings: BundlesSettings | None = None,
) -> Runner[BundlesState]:
    """A runner that goes on from wherever the journal has it; other settings than then may be given."""
    state = bundles_state_of(office, execution)
    if settings is not None:
        state = replace(state, settings=settings)
    return office.runner(BundlesMachine(port, office.clock), lease, execution, state, watch=watch)


def bundles_state_of(office: Office, execution: int) -> BundlesState:
    """The state of an execution of this level, as the journal has it."""
    state = office.journal.state(execution)
    assert isinstance(state, BundlesState), f"execution {execution} is of level {state.level}"
    return state


def bundles_receipt_of(entry: Entry, state: BundlesState) -> BundlesReceipt:
    """The receipt of an execution, as far as it is."""
    return BundlesReceipt(
        execution=entry.id,
        cluster=entry.cluster,
        cluster_id=entry.cluster_id,
        status=state.status,
        reason=state.reason,
        started_at=entry.created_at,
        ended_at=entry.ended_at if entry.ended_at is not None else max(state.now, entry.created_at),
        batches=state.batches,
        outcomes=tuple(_outcome(record) for record in state.records),
        notes=state.notes,
    )


def _outcome(record: BundleRecord) -> BundleOutcome:
    step = record.step
    asked, done = record.asked_at, record.ended_at
    moved = step.kind is StepKind.UNLOAD and record.state is StepState.DONE
    seconds = done - asked if moved and asked is not None and done is not None else None
    return BundleOutcome(
        kind=step.kind,
        state=record.state,
        reason=record.reason,
        moves=step.moves,
        started_at=record.started_at,
        ended_at=record.ended_at,
        bundle=step.bundle,
        source=step.source,
        target=step.target,
        boundaries=step.boundaries,
        sessions=step.sessions if record.asked_at is not None else 0,
        attempts=record.attempts,
        unowned_seconds=seconds,
    )


def apply_bundles(
    port: BundlesPort,
    office: Office,
    plan: BundlePlan,
    plan_text: str,
    settings: BundlesSettings,
    *,
    rebase: bool = False,
    watch: Watch | None = None,
    facts: dict[str, Any] | None = None,
) -> BundlesReceipt:
    """Carry a plan out to its end: lease, comparison, journal, execution, receipt.

    Raises
    ------
    ActError
        If another trimtab acts there, an earlier execution is interrupted, the plan does not fit the cluster
        any more, or the cluster is out of reach for too long.
    """
    prepared = prepare_bundles(port, plan, rebase=rebase)
    cluster_id = prepared.seen.cluster
    with office.lease(port, cluster_id, settings) as (lease, _):
        office.refuse_if_interrupted(cluster_id)
        execution = begin_bundles(office, prepared, settings, plan_text, facts)
        state = bundles_runner_of(office, port, lease, execution, watch=watch).run()
        return bundles_receipt_of(office.journal.entry(execution), state)
