"""trimtab's own folders on this machine, processes of this machine as others recognise them, and their time.

Folders follow the XDG convention; one environment variable moves each. A process is recognised also after its
number went to another one.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trimtab.files.store import Location, place_of


def lease_clock() -> float:
    """Monotonic time that also passes while the machine sleeps, where the system has such a clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


def start_thread(name: str, work: Callable[[], None]) -> threading.Thread:
    """A thread that runs a function, and that does not keep the process alive."""
    thread = threading.Thread(target=work, name=name, daemon=True)
    thread.start()
    return thread


def use_one_heap() -> None:
    """Let all threads of this process allocate from one heap of glibc.

    A heap for each takes 12 MiB more in the service, and up to 60 MiB a heap in a stream, whose threads hold
    micro-batches of 100,000 samples.
    """
    with suppress(AttributeError):
        ctypes.CDLL(None).mallopt(-8, 1)  # M_ARENA_MAX


def call_here(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in this process."""
    return function(*arguments)


@dataclass(frozen=True, slots=True)
class Runtime:
    """Time and threads of a process; a simulation passes its own.

    Attributes
    ----------
    clock
        Seconds since 1970.
    monotonic
        Monotonic time in seconds.
    sleep
        Waits for so many seconds.
    start
        Runs a function in a thread of that name; the thread can be joined.
    event, lock
        Make an event, and a lock, of these threads.
    call
        Calls a function with arguments; a service calls it in a process of its own.
    """

    clock: Callable[[], float] = time.time
    monotonic: Callable[[], float] = lease_clock
    sleep: Callable[[float], None] = time.sleep
    start: Callable[[str, Callable[[], None]], Any] = start_thread
    event: Callable[[], threading.Event] = threading.Event
    lock: Callable[[], AbstractContextManager[bool]] = threading.Lock
    call: Callable[..., Any] = call_here


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


def host_id() -> str:
    """Twelve digits that tell this machine, since its boot, and this container apart from others."""
    parts = [socket.gethostname()]
    with suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip())
        parts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


def cache_folder() -> Path:
    """Downloaded and compiled parts; may be deleted at any time (`TRIMTAB_CACHE`)."""
    return _place("TRIMTAB_CACHE", "XDG_CACHE_HOME", ".cache")


def lake_place(values: Path | str | None = None) -> Location:
    """Telemetry: raw samples, tables, snapshots; the folder or address given, else that of `TRIMTAB_LAKE`.

    Raises
    ------
    SettingsError
        If it is an address of a kind that is not understood.
    """
    found = values if values is not None else os.environ.get("TRIMTAB_LAKE")
    return place_of(found) if found else _place("TRIMTAB_LAKE", "XDG_DATA_HOME", ".local/share", "lake")


def state_folder() -> Path:
    """The execution journal, leases and sandboxes (`TRIMTAB_STATE`)."""
    return _place("TRIMTAB_STATE", "XDG_STATE_HOME", ".local/state")


def _place(own: str, shared: str, home: str, *below: str) -> Path:
    if own in os.environ:
        return Path(os.environ[own]).expanduser().absolute()
    base = os.environ.get(shared)
    return (Path(base) if base else Path.home() / home).joinpath("trimtab", *below)
