"""Whose work is in flight, told from a cluster's history."""

from collections.abc import Iterable

from simulate.kafka.shared import Happening
from simulate.kafka.state import PartitionName


def owners(history: Iterable[Happening]) -> dict[PartitionName, str]:
    """Who began what is in flight after all this."""
    begun: dict[PartitionName, str] = {}
    for happening in history:
        keep_owners(begun, happening)
    return begun


def keep_owners(begun: dict[PartitionName, str], happening: Happening) -> None:
    """The change that one happening makes in who began what is in flight."""
    name = happening.subject
    if happening.verb == "delete_topic":
        for known in [known for known in begun if known.topic == name]:
            del begun[known]
    if not isinstance(name, PartitionName):
        return
    if happening.verb == "reassign" and happening.detail[3]:
        begun[name] = happening.actor
    elif happening.verb in ("reassign", "finish", "cancel"):
        begun.pop(name, None)  # a reassignment to the same brokers takes effect at once
