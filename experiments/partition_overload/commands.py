"""What is typed while a quarter of the load comes in: the package's own commands, on a lake of the run's."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from control import BROKERS, GROUP, MEMBERS, QUARTER, RECORD_BYTES, WORKER_PER_SECOND, Task
from streams import PARTITIONS

PLANNED = (
    f"pipeline.keys.capacity_per_second={WORKER_PER_SECOND * PARTITIONS / MEMBERS:g}",
    "pipeline.keys.max_keys=100", f"keys.consumer_group={GROUP}", "keys.theta=0.9", "keys.epsilon=0.02",
)  # fmt: skip
"""What the balancer is told: of consumers what they can do, for a quarter of the load does not show it."""


class Failed(RuntimeError):
    """A run that came to nothing."""


def trimtab(lake: Path, *words: str) -> str:
    """A command of the package's own, on a lake of the run's; a plan may say by 3 that no plan helps."""
    command = [sys.executable, "-m", "trimtab", *words, "--lake", str(lake)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=900)
    if done.returncode not in ((0, 3) if words[0] == "plan" else (0,)):
        raise Failed(f"{' '.join(words)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return done.stdout + done.stderr


def table_by_commands(task: Task) -> dict[str, Any]:
    """Observe the topic under load, plan, and publish the table: what anybody would type."""
    folder, on = Path(task.folder), ("--cluster", f"kafka://{task.bootstrap}")
    settings = [word for one in PLANNED for word in ("--set", one)]
    lake, plan, begun = folder / "lake", folder / "plan.json", time.monotonic()
    trimtab(lake, "pipeline", "run", "--keys", task.topic, *on, *settings)
    read = time.monotonic()
    told = trimtab(lake, "plan", "keys", "--out", str(plan), *settings)
    print("   ", told.strip().splitlines()[0], flush=True)
    applied = trimtab(lake, "apply", str(plan), *on, "--yes")
    if json.loads(plan.read_text())["moves"] == [] or "is in force" not in applied:
        raise Failed(f"apply: {applied[-2000:]}")
    made = json.loads(plan.read_text())
    return {
        "groups_moved": sum(one["kind"] == "move_group" for one in made["moves"]),
        "keys_split": sum(one["kind"] == "split_key" for one in made["moves"]),
        "read_seconds": round(read - begun, 1),
        "applied_seconds": round(time.monotonic() - read, 1),
    }


SETTINGS = """
[capacity]
network_in_bytes_per_second = {limit:.0f}
network_out_bytes_per_second = {limit:.0f}

[replicas]
excluded_topics = ["__*", "trimtab-*"]
"""
"""Of the balancer `replicas`: a broker can carry five times what comes in on average, so that ε counts."""
TICKS = 6


def brokers_by_commands(task: Task) -> dict[str, Any]:
    """Sample the brokers under load, plan, and move partitions: the balancer `replicas`."""
    folder, begun = Path(task.folder), time.monotonic()
    lake, plan, settings = folder / "lake", folder / "plan.json", folder / "trimtab.toml"
    settings.write_text(SETTINGS.format(limit=5 * task.per_second / QUARTER * RECORD_BYTES / BROKERS))
    own, on = ("--settings", str(settings)), ("--cluster", f"kafka://{task.bootstrap}")
    trimtab(lake, "collect", *on, *own, "--ticks", str(TICKS), "--interval", "3")
    trimtab(lake, "pipeline", "run", *own, "--window", "6")
    told = trimtab(lake, "plan", "replicas", "--out", str(plan), *own)
    print("   ", told.strip().splitlines()[0], flush=True)
    applied = trimtab(lake, "apply", str(plan), *on, *own, "--yes")
    made = json.loads(plan.read_text())
    if made["moves"] and "finished" not in applied:
        raise Failed(f"apply: {applied[-2000:]}")
    return {"replicas_moved": len(made["moves"]), "levelled_seconds": round(time.monotonic() - begun, 1)}
