"""The level `keys` as those who carry plans out see it: a plan held against the table in force."""

from __future__ import annotations

from typing import Final

from trimtab.act.acting import Acting, Comparison, Entry, Prepared, beginning, steps_left
from trimtab.act.execution.codec import Codec
from trimtab.act.execution.published import standing
from trimtab.act.keys.machine import KeysMachine
from trimtab.act.keys.reasons import damaged, other_topic, rebalancing, unguarded, unseen
from trimtab.act.keys.seen import Seen
from trimtab.act.keys.settings import KeysSettings
from trimtab.act.keys.state import (
    KeysPort,
    Place,
    RoutingRecord,
    RoutingState,
    RoutingStep,
    StepKind,
)
from trimtab.act.keys.tables import route_in
from trimtab.model.errors import ActError
from trimtab.model.keys.naming import key_bytes
from trimtab.model.keys.plan import KeysPlan, KeysReceipt, MoveKind, Places, RoutingOutcome
from trimtab.model.keys.routing import RoutingTable


def look(port: KeysPort, plan: KeysPlan) -> tuple[str, Seen]:
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


def prepare(plan: KeysPlan, seen: Seen, rebase: bool) -> Prepared:
    """What is left of a plan.

    Raises
    ------
    ActError
        If partitions were added by somebody else, another group reads the topic, or routes have changed.
    """
    lost = bool(seen.damaged) and seen.table is None
    table = seen.table or RoutingTable(0, seen.base or plan.base, len(seen.ends))
    before = plan.partitions - plan.cost.partitions
    if len(seen.ends) not in (before, plan.partitions) or table.base != plan.base:
        raise ActError(
            f"topic {plan.topic} has {len(seen.ends)} partitions and its hash divides by {table.base}, "
            f"and the plan was made for {before} and {plan.base}: somebody has added some; observe it and "
            "plan again"
        )
    reads = [one for one in seen.groups if one.name == plan.consumers and (one.committed or not one.down)]
    if plan.consumers and not reads:
        others = ", ".join(one.name for one in seen.groups if one.name != plan.consumers)
        raise ActError(
            f"group {plan.consumers!r} of the plan does not read topic {plan.topic} any more "
            f"({others or 'nobody'} does): observe it and plan again"
        )
    routes = {f"{one.kind}/{one.name}": one for one in plan.assignments if one.kind is not MoveKind.ADD}
    for key in routes:
        if key.startswith(f"{MoveKind.KEY}/"):
            key_bytes(key.partition("/")[2])  # a hash is refused here, by its name
    # Of a table that is lost nobody knows what it said, so that all of the plan has to be published.
    stand = {
        key: "to do" if lost else standing(route_in(table, key), one.before, one.after)
        for key, one in routes.items()
    }
    changed = tuple(
        f"{key} goes to {_listed(route_in(table, key))} by table {table.version}, and went to "
        f"{_listed(routes[key].before)} when the plan was made (table {plan.version})"
        for key, how in stand.items()
        if how == "changed"
    )
    comparison = Comparison(stand, changed)
    comparison.refuse_if_changed("another routing table has been published", rebase=rebase)
    to_do = {key: routes[key].after for key, how in stand.items() if how == "to do"}
    return Prepared(plan, seen.cluster, seen, comparison, tuple(_steps(plan, seen, to_do)))


def _steps(plan: KeysPlan, seen: Seen, to_do: dict[str, Places]) -> list[RoutingStep]:
    """Partitions first, then one table for all, then the same without earlier partitions."""
    place = _place(plan)
    steps: list[RoutingStep] = []
    orders = {f"{move.kind}/{move.name}": move.order for move in plan.moves}

    def add(kind: StepKind, routes: dict[str, Places], moves: tuple[int, ...]) -> None:
        follows = len(steps) or None
        steps.append(
            RoutingStep(len(steps) + 1, kind, place, plan.base, plan.partitions, routes, moves, follows)
        )

    if plan.partitions > len(seen.ends):
        own = tuple(move.order for move in plan.moves if move.kind is MoveKind.ADD)
        add(StepKind.ADD, {}, own)
    if to_do or seen.damaged or seen.rival:
        add(StepKind.PUBLISH, to_do, tuple(sorted(orders[key] for key in to_do if key in orders)))
        if seen.groups:
            add(StepKind.SETTLE, to_do, ())
    return steps


def _listed(places: Places) -> str:
    return ", ".join(map(str, places))


def _place(plan: KeysPlan) -> Place:
    tables = plan.settings.get("tables")
    return Place(plan.topic, str(tables or "kafka:trimtab-tables"), plan.consumers, plan.topic_id)


def warnings(port: KeysPort, prepared: Prepared, settings: KeysSettings, expected: object) -> list[str]:
    """What is worth saying; whoever would break the order of keys that move is refused here.

    Raises
    ------
    ActError
        If a group, or a producer, is not seen to keep order, or the table there cannot be read.
    """
    seen: Seen = prepared.seen
    why = damaged(seen, settings) if prepared.steps else ""
    if why:
        raise ActError(f"topic {prepared.plan.topic}: {why}")
    why = (unguarded(seen, settings) if seen.there else "") or unseen(seen, settings)
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


def receipt(entry: Entry, state: RoutingState, sense: object) -> KeysReceipt:
    """The receipt: which table is in force, and what was done on the way."""
    outcomes = tuple(
        RoutingOutcome(
            kind=str(one.step.kind),
            moves=one.step.orders,
            name=step_name(one.step),
            version=state.version or None if one.step.kind is not StepKind.ADD else None,
            **one.told(),
        )
        for one in state.records
    )
    return KeysReceipt(outcomes=outcomes, **entry.receipt_fields(state))


def step_name(step: RoutingStep) -> str:
    """A step in a few words."""
    if step.kind is StepKind.ADD:
        return f"{step.place.topic} to {step.count} partitions"
    if step.kind is StepKind.SETTLE:
        return "earlier partitions out of the table, once consumers have passed what lies there"
    groups = sum(key.startswith(f"{MoveKind.GROUP}/") for key in step.routes)
    return f"a table with {groups} key groups and {len(step.routes) - groups} keys elsewhere"


ACTING: Final[Acting[KeysPort, KeysPlan, KeysSettings, RoutingState]] = Acting(
    codec=Codec(RoutingState, RoutingRecord),
    settings=KeysSettings,
    look=look,
    prepare=prepare,
    forecast=steps_left,
    warnings=warnings,
    new_execution=beginning(RoutingState, RoutingRecord),
    machine=KeysMachine,
    receipt=receipt,
)
