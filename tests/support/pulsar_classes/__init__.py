"""What Pulsar's own classes decide, asked through a small program that is compiled against their jars."""

import json
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.jars.fetch import fetch
from trimtab.jars.java import find_java
from trimtab.lab.sandbox.pulsar.runtime import lock_of

SOURCE = Path(__file__).with_name("DecisionRecorder.java")
MARK = "decision "


@dataclass(frozen=True)
class Run:
    """Ticks that one strategy goes through, from the first on.

    Attributes
    ----------
    strategy
        The shedder.
    placements
        Asked for an unknown bundle at every tick.
    options
        Of `broker.conf`.
    ticks
        `{"ms": milliseconds since 1970, "brokers": load reports}`.
    """

    strategy: str
    placements: tuple[str, ...]
    options: dict[str, str]
    ticks: list[dict[str, Any]]


def decisions_of(version: str, runs: Sequence[Run], scratch: Path) -> list[list[dict[str, Any]]]:
    """What the classes of a version of Pulsar decide at every tick of every run."""
    java = find_java("Pulsar's classes")
    assert java.compiler is not None
    class_path = ":".join(map(str, fetch(f"pulsar-{version}", lock_of(version))))
    compiled = scratch / f"recorder-{version}"
    compiled.mkdir()
    subprocess.run(
        [java.compiler, "-proc:none", "-Xlint:none", "-cp", class_path, "-d", compiled, SOURCE],
        check=True,
        capture_output=True,
    )
    lines = []
    for run in runs:
        lines.append({"strategy": run.strategy, "placements": run.placements, "options": run.options})
        lines += run.ticks
    answered = subprocess.run(
        [
            *(java.program, "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
            *("-cp", f"{compiled}:{class_path}", "DecisionRecorder"),
        ],
        input="".join(json.dumps(line) + "\n" for line in lines),
        check=True,
        capture_output=True,
        text=True,
    )
    told = iter(line for line in answered.stdout.splitlines() if line.startswith(MARK))
    found = [[json.loads(next(told).removeprefix(MARK)) for _ in run.ticks] for run in runs]
    assert next(told, None) is None
    return found
