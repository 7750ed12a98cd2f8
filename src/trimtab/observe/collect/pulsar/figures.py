"""Numbers out of what brokers tell, sound or not at all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from trimtab.observe.collect.pulsar.faults import Faults

TRAFFIC: Final = {
    "msg_rate_in": "msgRateIn",
    "msg_rate_out": "msgRateOut",
    "msg_throughput_in": "msgThroughputIn",
    "msg_throughput_out": "msgThroughputOut",
}
"""Raw columns, and Pulsar's names of them."""

Figures = dict[str, float]
"""Values by raw column; what is not known is not in it."""


def figure(told: Mapping[str, Any], name: str, subject: str, of: str, faults: Faults) -> float | None:
    """A number that is finite and not negative; None, and a fault, for anything else.

    Parameters
    ----------
    told
        An object of a broker's answer.
    name
        Of its field, in Pulsar's words.
    subject, of
        Who told it, and of what (`" of t/n/0x.."`), for the fault.
    """
    value = told.get(name)
    if value is None:
        faults.note(subject, "missing", f"tells no {name}{of}")
    elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        faults.note(subject, "number", f"tells as {name}{of} what is no number")
    elif value < 0:
        faults.note(subject, "negative", f"tells a negative {name}{of}")
    else:
        return float(value)
    return None


def figures(
    told: Mapping[str, Any], names: Mapping[str, str], subject: str, of: str, faults: Faults
) -> Figures:
    """Several of them by raw column; those that cannot be are missing."""
    found = {column: figure(told, name, subject, of, faults) for column, name in names.items()}
    return {column: value for column, value in found.items() if value is not None}
