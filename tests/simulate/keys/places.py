"""Where the records of split keys lie in the logs."""

from __future__ import annotations

from collections.abc import Sequence

from simulate.keys.clients import SimulatedLogEntry
from trimtab_keys.core.order.messages import SearchStream, Stream


class SequencePositions:
    """Where sequences lie, as far as logs have been gone through for that."""

    def __init__(self, partitions: int) -> None:
        self._places: dict[Stream, dict[int, list[tuple[int, int]]]] = {}
        self._indexed = [0] * partitions

    def found(
        self, search: SearchStream, logs: Sequence[Sequence[SimulatedLogEntry]], begins: Sequence[int]
    ) -> int | None:
        """The lowest sequence of those searched for that lies where logs are read; None for none."""
        for partition, log in enumerate(logs):
            for offset in range(self._indexed[partition], len(log)):
                record = log[offset].record
                if record is not None and record.stamp.sequence:
                    its = self._places.setdefault(record.stream, {})
                    its.setdefault(record.stamp.sequence, []).append((partition, offset))
            self._indexed[partition] = len(log)
        places = self._places.get(search.stream, {})
        for sequence in range(search.first, search.last + 1):
            if any(offset >= begins[partition] for partition, offset in places.get(sequence, ())):
                return sequence
        return None
