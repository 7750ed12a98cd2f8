"""Numbers out of what brokers tell, sound or not at all; each fault is counted, and told in a sentence."""

from __future__ import annotations

import math
import threading
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final


class SampleErrors:
    """Collects what is wrong; may be used from many threads.

    Values themselves are not told: a sentence is said once for as long as it stays true, and values change.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def note(self, subject: str, kind: str, text: str) -> None:
        """One value that is left out: `text` says why, in words that follow the subject (`broker b1:8080`).

        Faults of a subject and a kind are told together.
        """
        with self._lock:
            self._first.setdefault((subject, kind), text)
            self._counts[subject, kind] += 1

    @property
    def count(self) -> int:
        """The number of values left out."""
        return sum(self._counts.values())

    def sentences(self) -> tuple[str, ...]:
        """One for each subject and kind, by the first value of the kind."""
        return tuple(
            f"{subject} {text}" + (f" ({number - 1} more like it)" if number > 1 else "") + ": left out"
            for (subject, kind), text in self._first.items()
            if (number := self._counts[subject, kind])
        )


TRAFFIC: Final = {
    "msg_rate_in": "msgRateIn",
    "msg_rate_out": "msgRateOut",
    "msg_throughput_in": "msgThroughputIn",
    "msg_throughput_out": "msgThroughputOut",
}
"""Raw columns, and Pulsar's names of them."""

Figures = dict[str, float]
"""Values by raw column; what is not known is not in it."""


def figure(text: Mapping[str, Any], name: str, subject: str, of: str, faults: SampleErrors) -> float | None:
    """A number that is finite and not negative; None, and a fault, for anything else.

    Parameters
    ----------
    text
        An object of a broker's answer.
    name
        Of its field, in Pulsar's words.
    subject, of
        Who told it, and of what (`" of t/n/0x.."`), for the fault.
    """
    value = text.get(name)
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
    text: Mapping[str, Any], names: Mapping[str, str], subject: str, of: str, faults: SampleErrors
) -> Figures:
    """Several of them by raw column; those that cannot be are missing."""
    found = {column: figure(text, name, subject, of, faults) for column, name in names.items()}
    return {column: value for column, value in found.items() if value is not None}
