"""The executor of the balancer `bundles`: from a plan and the current owners to steps, and to a receipt."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from trimtab.act.bundles.load_check import BundleLoadCheck, forecast
from trimtab.act.bundles.machine import BundlesMachine, new_execution
from trimtab.act.bundles.port import BundlesObservation, BundlesPort
from trimtab.act.bundles.state import (
    BundlesExecutionState,
    BundleStep,
    BundleStepKind,
    BundleStepRecord,
    BundleStepState,
    UnloadSettings,
)
from trimtab.act.executor import (
    ExecutionSummary,
    Executor,
    NewestSnapshot,
    PlanDrift,
    PreparedPlan,
    StateCodec,
)
from trimtab.model.bundles.plan import BundleMove, BundleMoveKind, BundleOutcome, BundlePlan, BundlesReceipt
from trimtab.model.bundles.snapshot import BundleRange, namespace_of, parse_bundle
from trimtab.model.errors import ActError


class BundleMoveFit(StrEnum):
    """The standing of a move to the cluster."""

    AS_PLANNED = "as planned"
    """The bundle is where the plan found it, or nobody owns it now."""
    ALREADY_DONE = "already done"
    """The bundle is where the plan wants it, or cut as the plan wants it."""
    TO_COME = "to come"
    """It is about a bundle that an earlier move makes or moves."""
    MOVED = "moved"
    """Another broker owns the bundle."""
    SPLIT = "split"
    """Somebody has cut the bundle elsewhere."""
    DELETED = "deleted"
    """There is no such namespace, or no such bundle, any more."""
    NO_DESTINATION = "without its destination"
    """The broker that shall own it is not there, or does not answer."""
    DEPENDENT = "dependent"
    """It is about a bundle that an earlier move should have made, and that one is left out."""


LEFT_OUT = frozenset(
    {
        BundleMoveFit.MOVED,
        BundleMoveFit.SPLIT,
        BundleMoveFit.DELETED,
        BundleMoveFit.NO_DESTINATION,
        BundleMoveFit.DEPENDENT,
    }
)


@dataclass(frozen=True, slots=True)
class BundleDifference:
    """A move that does not fit the cluster any more."""

    move: BundleMove
    fit: BundleMoveFit
    found: str

    def __str__(self) -> str:
        return f"{self.move.kind} {self.move.bundle}: {self.fit}: {self.found}"


def compare(plan: BundlePlan, observation: BundlesObservation) -> PlanDrift[int, BundleMoveFit]:
    """Hold every move of the plan against the cluster.

    Parameters
    ----------
    observation
        A look that covers the plan's namespaces.
    """
    standing: dict[int, BundleMoveFit] = {}
    differences: list[BundleDifference] = []
    moved: set[str] = set()
    parts: dict[str, BundleMove] = {}
    for move in plan.moves:
        how, found = _fit_of(move, observation, moved, parts, standing)
        standing[move.order] = how
        if how in LEFT_OUT:
            differences.append(BundleDifference(move, how, found))
        moved.add(move.bundle)
        if move.kind is BundleMoveKind.SPLIT:
            parts |= {part.key: move for part in parts_of(move)}
    return PlanDrift(standing, tuple(differences))


def parts_of(move: BundleMove) -> tuple[BundleRange, ...]:
    """The bundles that a split makes."""
    whole = parse_bundle(move.bundle)
    ends = (whole.low, *move.boundaries, whole.high)
    return tuple(BundleRange(whole.namespace, low, high) for low, high in pairwise(ends))


def _fit_of(
    move: BundleMove,
    observation: BundlesObservation,
    moved: Collection[str],
    parts: Mapping[str, BundleMove],
    status: Mapping[int, BundleMoveFit],
) -> tuple[BundleMoveFit, str]:
    bundle = parse_bundle(move.bundle)
    made_by = parts.get(move.bundle)
    if made_by is not None and status[made_by.order] in LEFT_OUT:
        return BundleMoveFit.DEPENDENT, f"move {made_by.order} that makes it is left out"
    if bundle.namespace not in observation.boundaries:
        return BundleMoveFit.DELETED, f"there is no namespace {bundle.namespace}"
    if move.target is not None and move.target not in observation.alive:
        why = observation.unreachable.get(move.target, "it is not among the brokers")
        return BundleMoveFit.NO_DESTINATION, f"{move.target}: {why}"
    if move.kind is BundleMoveKind.SPLIT:
        how, found = _fit_of_split(bundle, move, observation)
    else:
        how, found = _fit_of_unload(bundle, move, observation)
    earlier = made_by is not None and status[made_by.order] is not BundleMoveFit.ALREADY_DONE
    if (earlier or move.bundle in moved) and how is not BundleMoveFit.ALREADY_DONE:
        return BundleMoveFit.TO_COME, ""
    return how, found


def _fit_of_unload(
    bundle: BundleRange, move: BundleMove, observation: BundlesObservation
) -> tuple[BundleMoveFit, str]:
    if not observation.has(bundle):
        return _missing(bundle, observation)
    owner = observation.owners.get(move.bundle)
    if owner == move.target:
        return BundleMoveFit.ALREADY_DONE, ""
    if owner is None or move.source is None or owner == move.source:
        return BundleMoveFit.AS_PLANNED, ""
    return BundleMoveFit.MOVED, f"{owner} owns it, the plan found it with {move.source}"


def _fit_of_split(
    bundle: BundleRange, move: BundleMove, observation: BundlesObservation
) -> tuple[BundleMoveFit, str]:
    cuts = observation.cuts(bundle)
    if cuts is None:
        return _missing(bundle, observation)
    if set(move.boundaries) <= set(cuts):
        return BundleMoveFit.ALREADY_DONE, ""
    return (
        _missing(bundle, observation) if set(cuts) - set(move.boundaries) else (BundleMoveFit.AS_PLANNED, "")
    )


def _missing(bundle: BundleRange, observation: BundlesObservation) -> tuple[BundleMoveFit, str]:
    cuts = observation.cuts(bundle)
    if cuts:
        return BundleMoveFit.SPLIT, f"it was split at {', '.join(f'0x{cut:08x}' for cut in cuts[:4])}"
    return BundleMoveFit.DELETED, "its namespace has other boundaries now"


def require_same_cluster(plan: BundlePlan, observation: BundlesObservation) -> None:
    """Refuse a plan that was made for another cluster.

    Raises
    ------
    ActError
        If none of the plan's brokers is one of this cluster, or its name is another one and not all of them
        are. Names of Pulsar clusters are not unique, and operators may use their own for a recording.
    """
    named = {one for m in plan.moves for one in (m.source, m.target) if one is not None}
    here = named & observation.brokers
    planned = plan.snapshot.cluster
    if (named and not here) or (planned != observation.name and here != named):
        strange = ", ".join(sorted(named - observation.brokers)[:3])
        raise ActError(
            f"this plan is for cluster {planned}, this is {observation.name}, and {strange} "
            f"{'is' if len(named - here) == 1 else 'are'} none of its brokers: check --cluster"
        )


def steps_of(plan: BundlePlan, comparison: PlanDrift[int, BundleMoveFit]) -> tuple[BundleStep, ...]:
    """The steps that carry out what is left of a plan, in its order.

    Each follows the last one before it that makes or moves its bundle.
    """
    steps: list[BundleStep] = []
    last: dict[str, int] = {}
    for move in plan.moves:
        how = comparison.fit[move.order]
        if how in LEFT_OUT or how is BundleMoveFit.ALREADY_DONE:
            continue
        number = len(steps) + 1
        unload = move.kind is BundleMoveKind.UNLOAD
        steps.append(
            BundleStep(
                number=number,
                kind=BundleStepKind.UNLOAD if unload else BundleStepKind.SPLIT,
                bundle=move.bundle,
                source=None if how is BundleMoveFit.TO_COME and move.bundle not in last else move.source,
                target=move.target if unload else None,
                boundaries=() if unload else move.boundaries,
                sessions=move.sessions if unload else 0,
                bytes_per_second=move.bytes_per_second if unload else 0.0,
                follows=last.get(move.bundle),
                moves=(move.order,),
            )
        )
        last[move.bundle] = number
        if not unload:
            last |= {part.key: number for part in parts_of(move)}
    return tuple(steps)


def observe(port: BundlesPort, plan: BundlePlan) -> tuple[str, BundlesObservation]:
    """Read owners and boundaries of the bundles that a plan moves."""
    namespaces = dict.fromkeys(namespace_of(move.bundle) for move in plan.moves)
    seen = port.observe(tuple(namespaces), (), deep=True)
    require_same_cluster(plan, seen)
    return seen.cluster, seen


def prepare(plan: BundlePlan, observation: BundlesObservation, rebase: bool) -> PreparedPlan:
    """Compare a plan with the observed cluster; returns the steps that still fit."""
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
    """The receipt of an execution of bundles, complete or partial."""
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
