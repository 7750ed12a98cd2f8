"""The five places where load piles up, a row each: what moves there, when, and where its code stands.

A cell is written `module:name` and imported when asked for, so that listing the levels costs nothing. A cell
of None is not built yet.
"""

from dataclasses import dataclass
from importlib import import_module
from typing import Final

from trimtab.model.errors import PlanError


@dataclass(frozen=True, slots=True)
class Level:
    """One level.

    Attributes
    ----------
    moves, across
        What is moved, and between what.
    trigger
        What starts a turn.
    snapshot, observe, plan, act
        Its cells: the value that is observed, what makes it from telemetry, what plans, what carries out.
    """

    name: str
    system: str
    moves: str
    across: str
    trigger: str
    snapshot: str | None = None
    observe: str | None = None
    plan: str | None = None
    act: str | None = None

    @property
    def built(self) -> bool:
        """Whether all four cells are there."""
        return None not in (self.snapshot, self.observe, self.plan, self.act)


LEVELS: Final = {
    level.name: level
    for level in (
        Level(
            "replicas",
            "Apache Kafka",
            moves="a partition's leader role, or a replica",
            across="broker to broker",
            trigger="a tick",
            snapshot="trimtab.model.replicas:ReplicasSnapshot",
            observe="trimtab.observe.pipeline:run_batch",
            plan="trimtab.plan.planner:plan_replicas",
            act="trimtab.act.apply:apply_plan",
        ),
        Level(
            "bundles",
            "Apache Pulsar",
            moves="a bundle of topics (assign, split, shed)",
            across="broker to broker",
            trigger="a tick, a lookup",
            snapshot="trimtab.model.bundles_snapshot:BundlesSnapshot",
            observe="trimtab.observe.pipeline:run_batch",
            plan="trimtab.plan.bundles.trim:plan_bundles",
            act="trimtab.act.apply_bundles:apply_bundles",
        ),
        Level(
            "keys",
            "Kafka producers",
            moves="a record key, or a group of keys",
            across="partition to partition",
            trigger="each record, from a published table",
        ),
        Level(
            "queues",
            "worker queues of an application",
            moves="a message (dispatch, then migrate)",
            across="queue to queue",
            trigger="each message, every ε, every T",
        ),
        Level(
            "masters",
            "a replicated group store",
            moves="the mastership of a group",
            across="node to node",
            trigger="a tick, a failure",
        ),
    )
}


def cell(level: str, room: str) -> object:
    """What a level's row names for a room, imported.

    Raises
    ------
    PlanError
        If there is no such level, or its cell is not built.
    """
    if level not in LEVELS:
        raise PlanError(f"level {level!r} is not known: choose one of {', '.join(LEVELS)}")
    place: str | None = getattr(LEVELS[level], room)
    if place is None:
        built = ", ".join(name for name, row in LEVELS.items() if row.built)
        raise PlanError(f"level {level} has no {room} yet: these levels are built: {built}")
    module, _, name = place.partition(":")
    found = import_module(module)
    return getattr(found, name) if name else found
