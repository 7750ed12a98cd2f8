"""Pauses that clients noticed in every unload, by their own clocks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trimtab.lab.sandbox.interruptions import (
    ClientInterruption,
    InterruptionSummary,
    interruptions,
    summarize_interruptions,
)
from trimtab.model.bundles.range import namespace_of, parse_bundle, topic_hash

if TYPE_CHECKING:
    from rich.table import Table

    from trimtab.lab.sandbox.pulsar.workload import PulsarWorkload
    from trimtab.lab.sandbox.truth import TruthTick
    from trimtab.model.bundles.receipt import BundlesReceipt


@dataclass(frozen=True)
class Disturbance:
    """The effect of one unload on its clients.

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
    pauses: tuple[ClientInterruption, ...]

    @property
    def felt(self) -> InterruptionSummary | None:
        """Median and longest; None where it has no clients."""
        return summarize_interruptions(self.pauses)


def disturbances(
    receipt: BundlesReceipt, workload: PulsarWorkload, ticks: Sequence[TruthTick]
) -> tuple[Disturbance, ...]:
    """The effect of each unload of an execution, in the order in which they ended.

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


def disturbance_table(found: Sequence[Disturbance]) -> Table:
    """The pauses that every unload gave its clients, and of all together."""
    from rich.table import Table

    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("unloaded bundle")
    for heading in ("from", "to"):
        table.add_column(heading)
    for heading in ("topics", "pause p50", "max"):
        table.add_column(heading, justify="right")
    for one in found:
        felt = one.felt
        pause = ("–", "–") if felt is None else (f"{felt.p50_seconds:.2f} s", f"{felt.max_seconds:.2f} s")
        table.add_row(one.bundle, one.source or "–", one.target or "–", str(len(one.topics)), *pause)
    felt = felt_by_all(found)
    if felt is not None:
        table.add_row(
            "all", "", "", "", f"{felt.p50_seconds:.2f} s", f"{felt.max_seconds:.2f} s", style="bold"
        )
    return table
