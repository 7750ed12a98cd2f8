"""Timing whole processes and calls: repeated, interleaved, reported as medians with their spread."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import time
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


@dataclass(frozen=True)
class Timing:
    """Seconds over several runs; `cpu_median` is user plus system time, less disturbed on a busy machine."""

    runs: int
    wall_min: float
    wall_median: float
    wall_max: float
    cpu_median: float

    def as_json(self) -> dict[str, float]:
        """Rounded to a tenth of a millisecond."""
        return {name: round(value, 4) for name, value in asdict(self).items()}


def time_commands(
    commands: Mapping[str, Sequence[str]], runs: int, *, warm_up: bool = True
) -> dict[str, Timing]:
    """Run commands in turn, A B A B ..., so that a drift of the machine's speed meets all of them alike.

    Parameters
    ----------
    commands
        Argument lists by name; each must end with exit code 0.
    runs
        Counted runs of each.
    warm_up
        Whether one uncounted run of each goes first.

    Raises
    ------
    RuntimeError
        If a command fails; the message carries its output.
    """
    wall: dict[str, list[float]] = {name: [] for name in commands}
    cpu: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(0 if warm_up else 1, runs + 1):
        for name, arguments in commands.items():
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            start = time.perf_counter()
            done = subprocess.run(arguments, capture_output=True, text=True, check=False)
            elapsed = time.perf_counter() - start
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            if done.returncode != 0:
                raise RuntimeError(f"{name}: exit code {done.returncode}\n{done.stdout}{done.stderr}")
            if turn:
                wall[name].append(elapsed)
                cpu[name].append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return {name: _summary(wall[name], cpu[name]) for name in commands}


def time_call(call: Callable[[], object], runs: int) -> Timing:
    """Time a call within this process; one uncounted run goes first."""
    wall, cpu = [], []
    for turn in range(runs + 1):
        start, start_cpu = time.perf_counter(), time.process_time()
        call()
        if turn:
            wall.append(time.perf_counter() - start)
            cpu.append(time.process_time() - start_cpu)
    return _summary(wall, cpu)


def machine() -> dict[str, object]:
    """What the figures were taken on."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "load_average": round(os.getloadavg()[0], 2),
    }


def _summary(wall: list[float], cpu: list[float]) -> Timing:
    return Timing(len(wall), min(wall), statistics.median(wall), max(wall), statistics.median(cpu))


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:
            return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or "unknown"
