"""What clients noticed of every unload, by their own clocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.model.bundle_range import namespace_of, parse_bundle, topic_hash
from trimtab.sandbox.interruptions import (
    Interruption,
    InterruptionSummary,
    interruptions,
    summarize_interruptions,
)

if TYPE_CHECKING:
    from trimtab.model.bundle_receipt import BundlesReceipt
    from trimtab.sandbox.pulsar.workload import PulsarWorkload
    from trimtab.sandbox.truth import TruthTick


@dataclass(frozen=True)
class Disturbance:
    """What one unload did to its clients.

    Attributes
    ----------
    bundle, source, target
        Which went where.
    topics
        Those of the load that are in it.
    pauses
        The longest of each client at each of them, between two messages; the usual time from message to
        message is in it.
    """

    bundle: str
    source: str | None
    target: str | None
    topics: tuple[str, ...]
    pauses: tuple[Interruption, ...]

    @property
    def felt(self) -> InterruptionSummary | None:
        """Median and longest; None where it has no clients."""
        return summarize_interruptions(self.pauses)


def disturbances(
    receipt: BundlesReceipt, workload: PulsarWorkload, ticks: Sequence[TruthTick]
) -> tuple[Disturbance, ...]:
    """What each unload of an execution did, in the order in which they ended.

    Parameters
    ----------
    receipt
        Of the execution.
    workload, ticks
        What clients were to do, and what they did, until a while after the execution.
    """
    found = []
    for outcome in sorted(receipt.done, key=lambda outcome: outcome.ended_at or 0.0):
        if outcome.kind == "unload" and outcome.started_at is not None and outcome.ended_at is not None:
            topics = topics_in(outcome.bundle, (name for name, _ in workload.topics))
            pauses = interruptions(ticks, topics, outcome.started_at, outcome.ended_at)
            found.append(Disturbance(outcome.bundle, outcome.source, outcome.target, topics, pauses))
    return tuple(found)


def felt_by_all(found: Iterable[Disturbance]) -> InterruptionSummary | None:
    """Median and longest over the clients of all unloads."""
    return summarize_interruptions([pause for one in found for pause in one.pauses])


def topics_in(bundle: str, topics: Iterable[str]) -> tuple[str, ...]:
    """Those topics (full names) that fall into a bundle."""
    place = parse_bundle(bundle)
    return tuple(
        topic
        for topic in topics
        if namespace_of(topic.partition("://")[2]) == place.namespace and place.holds(topic_hash(topic))
    )
