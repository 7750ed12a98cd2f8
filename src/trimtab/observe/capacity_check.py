"""Capacities: which resources they are known of, broker by broker, and what that means for plans."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from trimtab.model.finding import Finding, fine, missing
from trimtab.model.load import resource_name

LONGEST_LIST = 5


@dataclass(frozen=True)
class KnownCapacity:
    """One resource's capacities.

    Attributes
    ----------
    setting
        Key of `[capacity]` that declares it.
    origin
        By broker, where its capacity is from, `declared` or in other words; None where it has none.
    """

    resource: str
    setting: str
    origin: Mapping[int | str, str | None]


def capacity_findings(part: str, known: KnownCapacity, meaning: str) -> Iterator[Finding]:
    """One finding on a resource.

    Parameters
    ----------
    meaning
        What plans do where it is missing.
    """
    subject = f"capacity of {resource_name(known.resource)}"
    lacking = [str(broker) for broker, origin in known.origin.items() if origin is None]
    if not lacking:
        ways = Counter(origin for origin in known.origin.values() if origin is not None)
        yield fine(part, subject, ", ".join(f"{way} for {number}" for way, number in ways.items()))
        return
    if len(lacking) == len(known.origin):
        whom = "any broker"
    else:
        more = f" and {len(lacking) - LONGEST_LIST} more" if len(lacking) > LONGEST_LIST else ""
        whom = f"{'broker' if len(lacking) == 1 else 'brokers'} {', '.join(lacking[:LONGEST_LIST])}{more}"
    yield missing(part, subject, f"not known of {whom}: {meaning}", f"set capacity.{known.setting}")
