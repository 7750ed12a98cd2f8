"""A process as others can recognise it: also after its number went to another one."""

import hashlib
import os
import socket
from contextlib import suppress
from pathlib import Path


def start_time(pid: int) -> str:
    """When a process of this machine began, by the machine's own count; empty where there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return ""
    except PermissionError:
        pass
    return "running"


def machine() -> str:
    """Twelve digits that tell this machine, since its boot, and this container apart from others."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]
