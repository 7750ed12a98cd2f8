"""Recorded load reports, as a collector would have written them."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from support.bundle_views import MB, key
from trimtab.cli.app import main

Reports = dict[str, Any]


def broker(bundles: Mapping[str, float], cpu: float = 50.0) -> Reports:
    """A broker's own load report, also with fields that decide nothing; bundles by bytes per second in."""
    stats = {
        bundle: {
            "msgRateIn": throughput / 1000,
            "msgRateOut": 0.0,
            "msgThroughputIn": throughput,
            "msgThroughputOut": 0.0,
            "consumerCount": 2,
            "producerCount": 1,
            "topics": 3,
            "cacheSize": 0,
        }
        for bundle, throughput in bundles.items()
    }
    total = sum(bundles.values())
    return {
        "webServiceUrl": "http://h1:8080",
        "cpu": {"usage": cpu, "limit": 100.0},
        "memory": {"usage": 100.0, "limit": 512.0},
        "directMemory": {"usage": 10.0, "limit": 512.0},
        "bandwidthIn": {"usage": 1000.0, "limit": 1e6},
        "bandwidthOut": {"usage": 1000.0, "limit": 1e6},
        "msgThroughputIn": total,
        "msgThroughputOut": 0.0,
        "msgRateIn": total / 1000,
        "msgRateOut": 0.0,
        "lastUpdate": 1700000000000,
        "bundles": list(bundles),
        "lastStats": stats,
        "loadReportType": "LocalBrokerData",
    }


def skewed() -> Reports:
    """One broker at 90 % with 600 MiB/s in three bundles, one at 20 % with 10 MiB/s in one."""
    return {
        "h1:8080": broker({key(0): 100 * MB, key(1): 300 * MB, key(2): 200 * MB}, cpu=90.0),
        "h2:8080": broker({key(3): 10 * MB}, cpu=20.0),
    }


def tick(minute: int, brokers: Reports) -> Reports:
    """All reports of a minute after five."""
    return {"at": f"2026-11-21T05:{minute:02}:00Z", "brokers": brokers}


def written(path: Path, ticks: Sequence[Reports | str]) -> Path:
    """The recording of these ticks; a text is a line as it is."""
    lines = [line if isinstance(line, str) else json.dumps(line) for line in ticks]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def replay(*arguments: object, level: str = "bundles") -> int:
    """`trimtab replay LEVEL` in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["replay", level, *map(str, arguments)])
    code = ended.value.code
    return code if isinstance(code, int) else 0
