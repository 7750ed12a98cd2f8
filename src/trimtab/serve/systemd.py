"""Messages to systemd: the service is ready, it lives, it stops.

systemd names a datagram socket in `NOTIFY_SOCKET` to a unit with `Type=notify`. `WATCHDOG_USEC` is the time
within which it expects a message. Source: the manual page sd_notify(3) of systemd.
"""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Mapping

LOG = logging.getLogger("trimtab.serve")


def notify(text: str, environment: Mapping[str, str] = os.environ) -> bool:
    """Send a message like `READY=1`; False where no systemd listens.

    A message that cannot be sent is logged: it must not end a service that works. systemd restarts a unit
    whose messages stay away.
    """
    address = environment.get("NOTIFY_SOCKET", "")
    if not address:
        return False
    # A name that begins with @ is in the abstract namespace of Linux.
    name = "\0" + address[1:] if address.startswith("@") else address
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sender:
            sender.connect(name)
            sender.sendall(text.encode())
    except OSError as error:
        LOG.warning("systemd does not take %s at %s: %s", text, address, error)
        return False
    return True


def watchdog_seconds(environment: Mapping[str, str] = os.environ) -> float | None:
    """Time between two messages `WATCHDOG=1`, a third of systemd's limit; None without a watchdog.

    The limit is for the process `WATCHDOG_PID` alone, where systemd names one.
    """
    limit, process = environment.get("WATCHDOG_USEC", ""), environment.get("WATCHDOG_PID", "")
    if not limit.isdecimal() or int(limit) == 0 or process not in ("", str(os.getpid())):
        return None
    return int(limit) / 3e6
