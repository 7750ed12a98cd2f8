"""Faults in the values of a tick: each value is left out, counted, and told in a sentence."""

from __future__ import annotations

import threading
from collections import Counter


class Faults:
    """Collects what is wrong; may be used from many threads.

    Values themselves are not told: a sentence is said once for as long as it stays true, and values change.
    """

    def __init__(self) -> None:
        self._first: dict[tuple[str, str], str] = {}
        self._counts: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def note(self, subject: str, kind: str, text: str) -> None:
        """One value that is left out.

        Parameters
        ----------
        subject
            Who told it: `broker b1:8080`.
        kind
            Faults of a subject and a kind are told together.
        text
            What it told, in words that follow the subject.
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
