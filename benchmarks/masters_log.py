"""How large a node's log stays under a steady load, what that costs, and how long a start takes.

    .venv/bin/python benchmarks/masters_log.py --groups 3 --megabytes 1500 --folder FOLDER

writes what a node writes for batches of messages, as fast as it can be synced, with a snapshot of each group
after a thousand entries, once as it is and once as it was: never compacted. It shows sizes, the longest pause
that a loop of a thousandth of a second saw (the event loop of a node) and the longest sync.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import time
from pathlib import Path
from typing import Any

from trimtab_store.core.messages import (
    AcceptedAt,
    AppendMessages,
    ChosenUpTo,
    GroupSnapshot,
    MessageRecord,
    Promised,
)
from trimtab_store.core.settings import StoreSettings
from trimtab_store.core.state import GroupState
from trimtab_store.format.log import SEGMENT_BYTES, NodeLog

PAYLOAD_BYTES = 1000
MESSAGES = 16
"""Of one batch."""
BEFORE = 1 << 60
"""A segment that never ends: the log as it was."""


class Load:
    """Groups that get batches in turn."""

    def __init__(self, groups: int) -> None:
        settings = StoreSettings()
        self._states = [GroupState(settings.keep_bytes) for _ in range(groups)]
        self._entries = settings.snapshot_entries
        self._slot = 0

    def lines(self) -> list[tuple[int, Any]]:
        """What a node writes for one batch of each group."""
        self._slot += 1
        slot, found = self._slot, []
        first = (slot - 1) * MESSAGES + 1
        for group, state in enumerate(self._states):
            records = (
                MessageRecord("topic", "producer", first + n, bytes(PAYLOAD_BYTES)) for n in range(MESSAGES)
            )
            entry = AppendMessages(0, tuple(records))
            state.apply(slot, entry)
            found += [(group, AcceptedAt(slot, (1, 0), entry)), (group, ChosenUpTo(slot))]
            if slot == 1:
                found.append((group, Promised((1, 0))))
            # Not all in one moment, as chance has it.
            if (slot + group * self._entries // len(self._states)) % self._entries == 0:
                found.append((group, GroupSnapshot(slot, state.snapshot())))
        return found


async def written(folder: Path, groups: int, most_bytes: int, segment_bytes: int) -> dict[str, float]:
    """Write so many bytes, compacting beside it; figures."""
    log = NodeLog(folder / "log", "c", 0, segment_bytes=segment_bytes)
    load, done, most, syncs, pauses, encodings = Load(groups), 0, 0, [0.0], [0.0], [0.0]
    compactions: list[float] = []
    compacting: asyncio.Task[None] | None = None
    ended = False

    async def ticking() -> None:
        while not ended:
            begun = time.perf_counter()
            await asyncio.sleep(0.001)
            # Pauses of the load itself, a snapshot that is encoded above all, are not the compaction's.
            pauses.append(time.perf_counter() - begun if compacting is not None else 0.0)

    async def compact() -> None:
        nonlocal compacting
        begun = time.perf_counter()
        await asyncio.to_thread(log.compact)
        compactions.append(time.perf_counter() - begun)
        compacting = None

    ticker, begun = asyncio.create_task(ticking()), time.perf_counter()
    while done < most_bytes:
        at = time.perf_counter()
        for group, line in load.lines():
            log.write(group, line)
        encodings.append(time.perf_counter() - at)
        at = time.perf_counter()
        taken = log.next_flush()
        encodings.append(time.perf_counter() - at)
        done += len(taken.data)
        at = time.perf_counter()
        await asyncio.to_thread(log.put, taken)
        syncs.append(time.perf_counter() - at)
        if log.needs_compaction and compacting is None:
            compacting = asyncio.create_task(compact())
        if len(syncs) % 20 == 0:
            most = max(most, sum(one.stat().st_size for one in folder.iterdir()))
    seconds = time.perf_counter() - begun
    if compacting is not None:
        await compacting
    ended = True
    await ticker
    log.close()
    return {
        "written_megabytes": done / 1e6,
        "megabytes_in_second": done / 1e6 / seconds,
        "most_megabytes": most / 1e6,
        "left_megabytes": sum(one.stat().st_size for one in folder.iterdir()) / 1e6,
        "compactions": len(compactions),
        "longest_compaction_seconds": max(compactions, default=0.0),
        "longest_pause_while_compacting_seconds": max(pauses),
        "longest_write_or_take_seconds": max(encodings),
        "median_sync_seconds": sorted(syncs)[len(syncs) // 2],
        "longest_sync_seconds": max(syncs),
    }


def started(folder: Path, segment_bytes: int) -> float:
    """Seconds to open the log, as a start does; files are in the page cache."""
    begun = time.perf_counter()
    NodeLog(folder / "log", "c", 0, segment_bytes=segment_bytes).close()
    return time.perf_counter() - begun


def main() -> None:
    """Print figures as JSON, before and after."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--groups", type=int, default=3)
    parser.add_argument("--megabytes", type=float, default=1500)
    parser.add_argument("--folder", type=Path, required=True)
    given = parser.parse_args()
    for name, segment_bytes in (("before", BEFORE), ("after", SEGMENT_BYTES)):
        folder = given.folder / name
        found = asyncio.run(written(folder, given.groups, round(given.megabytes * 1e6), segment_bytes))
        found["start_seconds"] = min(started(folder, segment_bytes) for _ in range(3))
        print(json.dumps({name: {key: round(value, 4) for key, value in found.items()}}), flush=True)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
