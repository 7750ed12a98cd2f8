"""From a plan and the cluster as it is now to the steps that lead from one to the other."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from trimtab.act.acting import Comparison
from trimtab.act.bundles.port import BundlesSeen
from trimtab.act.bundles.steps import Step, StepKind
from trimtab.model.bundles.plan import BundleMove, BundleMoveKind, BundlePlan
from trimtab.model.bundles.range import BundleRange, parse_bundle
from trimtab.model.errors import ActError


class Standing(StrEnum):
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
    {Standing.MOVED, Standing.SPLIT, Standing.DELETED, Standing.NO_DESTINATION, Standing.DEPENDENT}
)


@dataclass(frozen=True, slots=True)
class Difference:
    """A move that does not fit the cluster any more."""

    move: BundleMove
    standing: Standing
    found: str

    def __str__(self) -> str:
        return f"{self.move.kind} {self.move.bundle}: {self.standing}: {self.found}"


def compare(plan: BundlePlan, seen: BundlesSeen) -> Comparison[int, Standing]:
    """Hold every move of the plan against the cluster.

    Parameters
    ----------
    seen
        A look that covers the plan's namespaces.
    """
    standing: dict[int, Standing] = {}
    differences: list[Difference] = []
    moved: set[str] = set()
    parts: dict[str, BundleMove] = {}
    for move in plan.moves:
        how, found = _standing(move, seen, moved, parts, standing)
        standing[move.order] = how
        if how in LEFT_OUT:
            differences.append(Difference(move, how, found))
        moved.add(move.bundle)
        if move.kind is BundleMoveKind.SPLIT:
            parts |= {part.key: move for part in parts_of(move)}
    return Comparison(standing, tuple(differences))


def parts_of(move: BundleMove) -> tuple[BundleRange, ...]:
    """The bundles that a split makes."""
    whole = parse_bundle(move.bundle)
    ends = (whole.low, *move.boundaries, whole.high)
    return tuple(BundleRange(whole.namespace, low, high) for low, high in pairwise(ends))


def _standing(
    move: BundleMove,
    seen: BundlesSeen,
    moved: Collection[str],
    parts: Mapping[str, BundleMove],
    standing: Mapping[int, Standing],
) -> tuple[Standing, str]:
    bundle = parse_bundle(move.bundle)
    made_by = parts.get(move.bundle)
    if made_by is not None and standing[made_by.order] in LEFT_OUT:
        return Standing.DEPENDENT, f"move {made_by.order} that makes it is left out"
    if bundle.namespace not in seen.boundaries:
        return Standing.DELETED, f"there is no namespace {bundle.namespace}"
    if move.target is not None and move.target not in seen.alive:
        why = seen.silent.get(move.target, "it is not among the brokers")
        return Standing.NO_DESTINATION, f"{move.target}: {why}"
    if move.kind is BundleMoveKind.SPLIT:
        how, found = _standing_of_split(bundle, move, seen)
    else:
        how, found = _standing_of_unload(bundle, move, seen)
    earlier = made_by is not None and standing[made_by.order] is not Standing.ALREADY_DONE
    if (earlier or move.bundle in moved) and how is not Standing.ALREADY_DONE:
        return Standing.TO_COME, ""
    return how, found


def _standing_of_unload(bundle: BundleRange, move: BundleMove, seen: BundlesSeen) -> tuple[Standing, str]:
    if not seen.has(bundle):
        return _missing(bundle, seen)
    owner = seen.owners.get(move.bundle)
    if owner == move.target:
        return Standing.ALREADY_DONE, ""
    if owner is None or move.source is None or owner == move.source:
        return Standing.AS_PLANNED, ""
    return Standing.MOVED, f"{owner} owns it, the plan found it with {move.source}"


def _standing_of_split(bundle: BundleRange, move: BundleMove, seen: BundlesSeen) -> tuple[Standing, str]:
    cuts = seen.cuts(bundle)
    if cuts is None:
        return _missing(bundle, seen)
    if set(move.boundaries) <= set(cuts):
        return Standing.ALREADY_DONE, ""
    return _missing(bundle, seen) if set(cuts) - set(move.boundaries) else (Standing.AS_PLANNED, "")


def _missing(bundle: BundleRange, seen: BundlesSeen) -> tuple[Standing, str]:
    cuts = seen.cuts(bundle)
    if cuts:
        return Standing.SPLIT, f"it was split at {', '.join(f'0x{cut:08x}' for cut in cuts[:4])}"
    return Standing.DELETED, "its namespace has other boundaries now"


def refuse_if_elsewhere(plan: BundlePlan, seen: BundlesSeen) -> None:
    """Refuse a plan that was made for another cluster.

    Raises
    ------
    ActError
        If none of the plan's brokers is one of this cluster, or its name is another one and not all of them
        are. Names of Pulsar clusters are not unique, and operators may use their own for a recording.
    """
    named = {one for m in plan.moves for one in (m.source, m.target) if one is not None}
    here = named & seen.brokers
    planned = plan.snapshot.cluster
    if (named and not here) or (planned != seen.name and here != named):
        strange = ", ".join(sorted(named - seen.brokers)[:3])
        raise ActError(
            f"this plan is for cluster {planned}, this is {seen.name}, and {strange} "
            f"{'is' if len(named - here) == 1 else 'are'} none of its brokers: check --pulsar-admin"
        )


def steps_of(plan: BundlePlan, comparison: Comparison[int, Standing]) -> tuple[Step, ...]:
    """The steps that carry out what is left of a plan, in its order.

    Each follows the last one before it that makes or moves its bundle.
    """
    steps: list[Step] = []
    last: dict[str, int] = {}
    for move in plan.moves:
        how = comparison.standing[move.order]
        if how in LEFT_OUT or how is Standing.ALREADY_DONE:
            continue
        number = len(steps) + 1
        unload = move.kind is BundleMoveKind.UNLOAD
        steps.append(
            Step(
                number=number,
                kind=StepKind.UNLOAD if unload else StepKind.SPLIT,
                bundle=move.bundle,
                source=None if how is Standing.TO_COME and move.bundle not in last else move.source,
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
