"""The room that a sandbox needs on this machine, in memory, disk and processors."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from trimtab.model.errors import SandboxError

# What a sandbox's clients do needs room, too.
OTHER_MEMORY_MB = 300
DISK_MB = 2_000


def require_resources(what: str, memory_mb: int, folder: Path) -> None:
    """Make sure that memory and disk suffice.

    Parameters
    ----------
    what
        Is to be started, as the error names it.
    memory_mb
        What its nodes need together.
    folder
        Where its data will lie.

    Raises
    ------
    SandboxError
        If either does not.
    """
    needed = memory_mb + OTHER_MEMORY_MB
    free = free_memory_mb()
    if free is not None and free < needed:
        raise SandboxError(
            f"{what} need {needed} MB of memory, and {free} MB are free: close something, or start fewer "
            "brokers"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    disk = shutil.disk_usage(folder.parent).free // 1_000_000
    if disk < DISK_MB:
        raise SandboxError(
            f"a sandbox needs {DISK_MB} MB of disk, and {folder.parent} has {disk} MB: free some, or name "
            "another place with the environment variable TRIMTAB_STATE"
        )


def free_memory_mb(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """Memory that programs may still take, None where the system does not tell."""
    try:
        match = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match.group(1)) // 1000 if match else None
