"""Free ports on the loopback interface."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Collection
from contextlib import ExitStack

from trimtab.model.errors import SandboxError

# Below the range that systems hand out to outgoing connections, so that none of those gets between our
# choice and the broker's start.
LOWEST, HIGHEST = 19_000, 31_999


def free_ports(count: int, without: Collection[int] = ()) -> list[int]:
    """Ports on which nothing listens, all different and none of `without`.

    Raises
    ------
    SandboxError
        If so many cannot be found.
    """
    candidates = [port for port in range(LOWEST, HIGHEST + 1) if port not in without]
    random.SystemRandom().shuffle(candidates)
    found: list[int] = []
    with ExitStack() as held:
        for port in candidates:
            if len(found) == count:
                break
            probe = held.enter_context(socket.socket())
            if _bind(probe, port):
                found.append(port)
            else:
                probe.close()
    if len(found) < count:
        raise SandboxError(
            f"{count} free ports are needed between {LOWEST} and {HIGHEST}, and {len(found)} were found: "
            "stop what listens there"
        )
    return found


def require_free(port: int) -> None:
    """Make sure that nothing listens on a port.

    Raises
    ------
    SandboxError
        If something does, or the port may not be used.
    """
    with socket.socket() as probe:
        if not _bind(probe, port):
            raise SandboxError(
                f"port {port} on 127.0.0.1 is in use: stop what listens there, or let trimtab choose"
            )


def _bind(probe: socket.socket, port: int) -> bool:
    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        probe.bind(("127.0.0.1", port))
        probe.listen(1)
    except OSError as error:
        if error.errno in (errno.EADDRINUSE, errno.EACCES):
            return False
        raise
    return True
