"""Of two processes that both say that they are one node, only one is heard: it would vote twice."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from trimtab_common.errors import InputError


@dataclass(slots=True)
class PeerConnection:
    """The connection of a peer, with the incarnation that opened it."""

    incarnation: int
    writer: asyncio.StreamWriter
    last_activity_at: float


class PeerRegistry:
    """Which life of each other node is connected here.

    A node that is started again has another life, and the connection of the one before may linger, as after a
    power cut: it says nothing any more, and makes room. One that is still heard stays, and the other is
    refused.

    Parameters
    ----------
    idle_seconds
        Whoever has said nothing for so long is gone; nodes tell one another more often that they are there.
    """

    def __init__(self, idle_seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._unreachable, self._clock = idle_seconds, clock
        self._connections: dict[int | str, PeerConnection] = {}

    def admit(self, node: int, incarnation: int, writer: asyncio.StreamWriter) -> None:
        """Take in a connection of a node.

        Raises
        ------
        InputError
            If another life of it is connected, and heard.
        """
        now, there = self._clock(), self._connections.get(node)
        if there is not None and there.incarnation != incarnation:
            if now - there.last_activity_at < self._unreachable:
                raise InputError(
                    f"node {node} runs twice: one process is connected from {_host(there.writer)}, another "
                    f"calls from {_host(writer)}: stop one of them, or correct its number (node); refused"
                )
            there.writer.close()
        self._connections[node] = PeerConnection(incarnation, writer, now)

    def record_activity(self, who: int | str) -> None:
        """Record activity of a peer. Clients are not tracked."""
        seat = self._connections.get(who)
        if seat is not None:
            seat.last_activity_at = self._clock()

    def left(self, who: int | str | None, writer: asyncio.StreamWriter) -> None:
        """A connection has ended."""
        if who is not None and who in self._connections and self._connections[who].writer is writer:
            del self._connections[who]


def _host(writer: asyncio.StreamWriter) -> str:
    host, *_ = writer.get_extra_info("peername") or ("an address that is not known",)
    return str(host)
