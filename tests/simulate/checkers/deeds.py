"""Checks on the deeds of trimtab, told from a cluster's history."""

from collections.abc import Collection, Iterable
from itertools import pairwise

from simulate.checkers.ownership import keep_owners
from simulate.kafka.cluster import SimulatedKafka
from simulate.kafka.state import PartitionName


def foreign_work_respected(cluster: SimulatedKafka, actors: Collection[str]) -> list[str]:
    """Trimtab neither replaces nor cancels what somebody else has in flight."""
    found = []
    begun: dict[PartitionName, str] = {}
    for happening in cluster.history:
        name = happening.subject
        if isinstance(name, PartitionName) and happening.actor in actors:
            other = begun.get(name)
            if happening.verb in ("reassign", "cancel") and other is not None and other not in actors:
                found.append(
                    f"at {happening.at:.1f}: {happening.verb} of {name}, which {other} had in flight"
                )
        keep_owners(begun, happening)
    return found


def no_copy_sent_to_the_dead(
    cluster: SimulatedKafka, actors: Collection[str], seconds: float = 10.0
) -> list[str]:
    """No replica is sent to a broker that has been known to be dead for so long."""
    found = []
    fenced_at: dict[int, float] = {}
    for happening in cluster.history:
        if happening.verb == "fence" and isinstance(happening.subject, int):
            fenced_at[happening.subject] = happening.at
        if happening.verb == "reassign" and happening.actor in actors:
            dead = happening.detail[2]
            assert isinstance(dead, tuple)
            found += [
                f"at {happening.at:.1f}: {happening.subject} sent to broker {broker}, "
                f"dead since {fenced_at[broker]:.1f}"
                for broker in dead
                if happening.at - fenced_at[broker] >= seconds
            ]
    return found


def never_both_at_once(cluster: SimulatedKafka, actors: Iterable[str]) -> list[str]:
    """Of several trimtabs one acts from its first deed to its last before another begins."""
    spans = {}
    for actor in actors:
        times = [
            n for n, h in enumerate(cluster.history) if h.actor == actor and h.verb in ("reassign", "elect")
        ]
        if times:
            spans[actor] = (times[0], times[-1])
    ordered = sorted(spans.items(), key=lambda item: item[1])
    return [
        f"{earlier[0]} and {later[0]} acted by turns"
        for earlier, later in pairwise(ordered)
        if later[1][0] < earlier[1][1]
    ]
