"""The balancer `keys` as those who carry plans out see it: a plan held against the table in force."""

from __future__ import annotations

from typing import Final

from trimtab.act.execution.publishing import publication_fit
from trimtab.act.executor import (
    ExecutionSummary,
    Executor,
    PlanDrift,
    PreparedPlan,
    StateCodec,
    initial_state_factory,
)
from trimtab.act.keys.machine import (
    KeysMachine,
    damaged,
    other_topic,
    rebalancing,
    route_in,
    unguarded,
    unverified_reason,
)
from trimtab.act.keys.state import (
    KeysExecutionSettings,
    KeysExecutionState,
    KeysObservation,
    KeysPort,
    RoutingStep,
    RoutingStepKind,
    RoutingStepRecord,
    TableLocation,
)
from trimtab.model.errors import ActError
from trimtab.model.keys import KeysPlan, KeysReceipt, Places, RoutingMoveKind, RoutingOutcome, key_bytes
from trimtab_keys.core.routing import RoutingTable


def observe(port: KeysPort, plan: KeysPlan) -> tuple[str, KeysObservation]:
    """See the topic of a plan and its clients.

    Raises
    ------
    ActError
        If it is another topic than the plan was made for, of the same name, or none.
    """
    seen = port.observe(_place(plan))
    why = other_topic(_place(plan), seen)
    if why:
        raise ActError(why)
    return seen.cluster, seen


def prepare(plan: KeysPlan, observation: KeysObservation, rebase: bool) -> PreparedPlan:
    """What is left of a plan.

    Raises
    ------
    ActError
        If partitions were added by somebody else, another group reads the topic, or routes have changed.
    """
    lost = bool(observation.damaged) and observation.table is None
    table = observation.table or RoutingTable(0, observation.base or plan.base, len(observation.ends))
    before = plan.partitions - plan.cost.partitions
    if len(observation.ends) not in (before, plan.partitions) or table.base != plan.base:
        raise ActError(
            f"topic {plan.topic} has {len(observation.ends)} partitions and its hash divides by "
            f"{table.base}, "
            f"and the plan was made for {before} and {plan.base}: somebody has added some; observe it and "
            "plan again"
        )
    reads = [
        one for one in observation.groups if one.name == plan.consumers and (one.committed or not one.down)
    ]
    if plan.consumers and not reads:
        others = ", ".join(one.name for one in observation.groups if one.name != plan.consumers)
        raise ActError(
            f"group {plan.consumers!r} of the plan does not read topic {plan.topic} any more "
            f"({others or 'nobody'} does): observe it and plan again"
        )
    routes = {
        f"{one.kind}/{one.name}": one for one in plan.assignments if one.kind is not RoutingMoveKind.ADD
    }
    for key in routes:
        if key.startswith(f"{RoutingMoveKind.KEY}/"):
            key_bytes(key.partition("/")[2])  # a hash is refused here, by its name
    # Of a table that is lost nobody knows what it said, so that all of the plan has to be published.
    stand = {
        key: "to do" if lost else publication_fit(route_in(table, key), one.before, one.after)
        for key, one in routes.items()
    }
    changed = tuple(
        f"{key} goes to {_listed(route_in(table, key))} by table {table.version}, and went to "
        f"{_listed(routes[key].before)} when the plan was made (table {plan.version})"
        for key, how in stand.items()
        if how == "changed"
    )
    comparison = PlanDrift(stand, changed)
    comparison.require_unchanged("another routing table has been published", rebase=rebase)
    to_do = {key: routes[key].after for key, how in stand.items() if how == "to do"}
    return PreparedPlan(
        plan, observation.cluster, observation, comparison, tuple(_steps(plan, observation, to_do))
    )


def _steps(plan: KeysPlan, observation: KeysObservation, to_do: dict[str, Places]) -> list[RoutingStep]:
    """Partitions first, then one table for all, then the same without earlier partitions."""
    place = _place(plan)
    steps: list[RoutingStep] = []
    orders = {f"{move.kind}/{move.name}": move.order for move in plan.moves}

    def add(kind: RoutingStepKind, routes: dict[str, Places], moves: tuple[int, ...]) -> None:
        follows = len(steps) or None
        steps.append(
            RoutingStep(len(steps) + 1, kind, place, plan.base, plan.partitions, routes, moves, follows)
        )

    if plan.partitions > len(observation.ends):
        own = tuple(move.order for move in plan.moves if move.kind is RoutingMoveKind.ADD)
        add(RoutingStepKind.ADD, {}, own)
    if to_do or observation.damaged or observation.foreign_table:
        add(RoutingStepKind.PUBLISH, to_do, tuple(sorted(orders[key] for key in to_do if key in orders)))
        if observation.groups:
            add(RoutingStepKind.SETTLE, to_do, ())
    return steps


def _listed(places: Places) -> str:
    return ", ".join(map(str, places))


def _place(plan: KeysPlan) -> TableLocation:
    tables = plan.settings.get("table_location")
    return TableLocation(plan.topic, str(tables or "kafka:trimtab-tables"), plan.consumers, plan.topic_id)


def warnings(
    port: KeysPort, prepared: PreparedPlan, settings: KeysExecutionSettings, expected: object
) -> list[str]:
    """What is worth saying; whoever would break the order of keys that move is refused here.

    Raises
    ------
    ActError
        If a group, or a producer, is not seen to keep order, or the table there cannot be read.
    """
    seen: KeysObservation = prepared.observation
    why = damaged(seen, settings) if prepared.steps else ""
    if why:
        raise ActError(f"topic {prepared.plan.topic}: {why}")
    why = (unguarded(seen, settings) if seen.there else "") or unverified_reason(seen, settings)
    if prepared.steps and why:
        raise ActError(f"topic {prepared.plan.topic}: {why}")
    if prepared.steps and not seen.there:
        return [
            f"{_place(prepared.plan).tables} is not there yet, or has no partition for heartbeats: it is "
            "made first, and nothing is published before every member of the group tells there that it keeps "
            "order"
        ]
    told = []
    wait = rebalancing(seen, settings) if prepared.steps else ""
    if wait:
        told.append(f"{wait}: nothing is published before that is over")
    if prepared.steps and not any(one.role == "producer" for one in seen.clients):
        told.append(
            "no producer tells that it follows tables: those that do not go on by the plain hash, and their "
            "records of split keys have no common order with others'"
        )
    return told


def receipt(entry: ExecutionSummary, state: KeysExecutionState, sense: object) -> KeysReceipt:
    """The receipt: which table is in force, and what was done on the way."""
    outcomes = tuple(
        RoutingOutcome(
            kind=str(one.step.kind),
            moves=one.step.orders,
            name=step_name(one.step),
            version=state.version or None if one.step.kind is not RoutingStepKind.ADD else None,
            **one.outcome_fields(),
        )
        for one in state.records
    )
    return KeysReceipt(outcomes=outcomes, **entry.receipt_fields(state))


def step_name(step: RoutingStep) -> str:
    """A step in a few words."""
    if step.kind is RoutingStepKind.ADD:
        return f"{step.place.topic} to {step.count} partitions"
    if step.kind is RoutingStepKind.SETTLE:
        return "earlier partitions out of the table, once consumers have passed what lies there"
    groups = sum(key.startswith(f"{RoutingMoveKind.GROUP}/") for key in step.routes)
    return f"a table with {groups} key groups and {len(step.routes) - groups} keys elsewhere"


EXECUTOR: Final[Executor[KeysPort, KeysPlan, KeysExecutionSettings, KeysExecutionState]] = Executor(
    codec=StateCodec(KeysExecutionState, RoutingStepRecord),
    settings=KeysExecutionSettings,
    observe=observe,
    prepare=prepare,
    warnings=warnings,
    new_execution=initial_state_factory(KeysExecutionState, RoutingStepRecord),
    machine=KeysMachine,
    receipt=receipt,
)
