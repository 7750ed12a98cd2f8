"""Who holds a lease: as a value, as text in files and in the cluster, and whether it is still alive."""

import getpass
import os
import socket
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from urllib.parse import parse_qsl, urlencode

import msgspec

from trimtab.files.process import machine, start_time
from trimtab.model.errors import ActError


@dataclass(frozen=True)
class LeaseHolder:
    """Who holds a lease; times are seconds since 1970.

    Attributes
    ----------
    host, machine
        Name of its host, and what tells machines, and containers on them, apart; the latter empty in claims
        of older versions.
    process_started_at
        When the process began, in the kernel's ticks since boot: tells it from a later one of the same pid.
    folder, execution
        Its state folder, and the execution it runs; empty and None where it has not said so (yet).
    """

    token: str
    host: str
    pid: int
    process_started_at: str
    user: str
    since: float
    renewed_at: float
    folder: str = ""
    execution: int | None = None
    machine: str = ""

    @property
    def number(self) -> str:
        """The number of its execution as commands take it, after a space; empty where that is not known."""
        return "" if self.execution is None else f" {self.execution}"

    def __str__(self) -> str:
        what = f", execution{self.number}" if self.number else ""
        where = f", TRIMTAB_STATE={self.folder}" if self.folder else ""
        return f"{self.user}@{self.host} (process {self.pid}, since {clock_text(self.since)}{what}{where})"


def this_process(token: str, now: float) -> LeaseHolder:
    """A holder that names this process."""
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        user = str(os.getuid())
    pid = os.getpid()
    return LeaseHolder(token, socket.gethostname(), pid, start_time(pid), user, now, now, machine=machine())


def holder_text(holder: LeaseHolder) -> str:
    """For machines, and for an operator who lists the cluster's settings."""
    return urlencode({name: value for name, value in asdict(holder).items() if value is not None})


def parse_holder(text: str) -> LeaseHolder | None:
    """The holder that a text names; None where it names none."""
    try:
        return msgspec.convert(dict(parse_qsl(text, keep_blank_values=True)), LeaseHolder, strict=False)
    except msgspec.ValidationError:
        return None


def lease_conflict(holder: LeaseHolder | None, cluster_id: str) -> ActError:
    """The answer to whoever wants to act on a cluster while that one does; None: nobody knows who it is."""
    who, number = ("another trimtab", "") if holder is None else (str(holder), holder.number)
    return ActError(
        f"{who} is acting on cluster {cluster_id}: wait until it is through, or stop it with `trimtab "
        f"execution stop{number}` where it runs (`trimtab execution resume{number}` goes on there)"
    )


def is_here(holder: LeaseHolder) -> bool:
    """True if it is, or was, a process that can be looked for from here."""
    return holder.machine == machine() if holder.machine else holder.host == socket.gethostname()


def is_running(holder: LeaseHolder) -> bool:
    """True if it is such a process and runs."""
    return is_here(holder) and start_time(holder.pid) == holder.process_started_at != ""


def clock_text(at: float) -> str:
    """Seconds since 1970 as date and time of day."""
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
