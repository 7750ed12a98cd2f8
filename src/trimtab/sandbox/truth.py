"""What a load really did, tick by tick: the figures that telemetry is held against.

One JSON line per tick and client. Ticks begin at whole multiples of `TICK_SECONDS` of the system's clock,
so that the lines of all clients fit together.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

TICK_SECONDS = 1.0


@dataclass(frozen=True)
class Traffic:
    """Records and their value bytes, before any compression."""

    records: int
    bytes: int


@dataclass(frozen=True)
class TruthTick:
    """One client's tick.

    Parameters
    ----------
    client
        `producer`, or the name of a consumer group.
    at
        Begin of the tick, seconds since the epoch.
    seconds
        Its length; the last one of a run may be shorter.
    planned, done
        By `topic:partition`: what was due, and what brokers confirmed (producer) or handed out (group).
    late_records
        Records sent more than a second after they were due.
    errors
        Records given up, or polls that failed.
    latency_p50_ms, latency_p99_ms
        From send to confirmation; None for a tick without any, and for groups.
    """

    client: str
    at: float
    seconds: float
    planned: dict[str, Traffic] = field(default_factory=dict)
    done: dict[str, Traffic] = field(default_factory=dict)
    late_records: int = 0
    errors: int = 0
    latency_p50_ms: float | None = None
    latency_p99_ms: float | None = None

    def to_line(self) -> str:
        """The tick as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":")) + "\n"


def read_truth(folder: Path) -> Iterator[TruthTick]:
    """All ticks of a load, client after client; a last line that was cut off by a kill is left out."""
    for path in sorted(folder.glob("*.truth.jsonl")):
        with path.open(encoding="utf-8") as lines:
            for line in lines:
                if not line.endswith("\n"):
                    continue
                document = json.loads(line)
                for name in ("planned", "done"):
                    document[name] = {key: Traffic(**part) for key, part in document[name].items()}
                yield TruthTick(**document)


def traffic_between(
    ticks: Iterator[TruthTick] | list[TruthTick], begin: float, end: float
) -> dict[str, dict[str, Traffic]]:
    """What each client did in the ticks that lie wholly between two times, by client and partition."""
    totals: dict[str, dict[str, Traffic]] = {}
    for tick in ticks:
        if begin <= tick.at and tick.at + tick.seconds <= end:
            done = totals.setdefault(tick.client, {})
            for key, part in tick.done.items():
                before = done.get(key, Traffic(0, 0))
                done[key] = Traffic(before.records + part.records, before.bytes + part.bytes)
    return totals
