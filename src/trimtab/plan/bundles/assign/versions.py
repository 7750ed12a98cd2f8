"""Brokers of the newest version alone, where the operator prefers them (`preferLaterVersions`)."""

import re
from collections.abc import Sequence
from typing import Any

from trimtab.model.bundle_policies import BrokerTraits, ClusterMetadata

_VERSION = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-(?P<before>[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?"
)


def of_newest_version(candidates: Sequence[str], metadata: ClusterMetadata) -> list[str] | None:
    """The candidates with the newest version.

    Returns
    -------
    list of str or None
        None if there is no candidate, or one says no version, or none that can be read: the filter fails,
        and the caller begins again with all brokers.

    References
    ----------
    `BrokerVersionFilter`; semantic versioning 2.0.0, section 11. Build metadata does not count.
    """
    ranks: dict[str, Any] = {}
    for broker in candidates:
        rank = precedence(metadata.traits.get(broker, BrokerTraits()).version)
        if rank is None:
            return None
        ranks[broker] = rank
    if not ranks:
        return None
    newest = max(ranks.values())
    return [broker for broker, rank in ranks.items() if rank == newest]


def precedence(version: str | None) -> tuple[Any, ...] | None:
    """What orders a version among others, or None if it is no semantic version."""
    found = _VERSION.fullmatch(version or "")
    if found is None:
        return None
    before = found["before"]
    # A pre-release comes before its release; numbers before words, fewer identifiers before more.
    marks = [
        (0, int(mark), "") if mark.isdigit() else (1, 0, mark)
        for mark in (before.split(".") if before else [])
    ]
    return (*(int(number) for number in found.groups()[:3]), before is None, tuple(marks))
