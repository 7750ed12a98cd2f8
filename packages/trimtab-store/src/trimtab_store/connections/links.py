"""Connections of a node: frames to other nodes and to clients, over TCP, in bounded queues."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

from trimtab_common.errors import InputError
from trimtab_store.connections.handshake import HANDSHAKE_SECONDS, PeerIdentity, introduce
from trimtab_store.format.envelope import opened
from trimtab_store.format.frames import HEAD, MAX_FRAME_BYTES, TornFrameError, decoded

WAITING_FRAMES: Final = 10_000
"""What comes after so many is dropped, as a network drops it: the protocol asks again."""
WAITING_BYTES: Final = 64 << 20
"""The same for what comes after so many bytes; one frame may be larger by itself."""
IDLE_TIMEOUT_SECONDS: Final = 10
"""After that long without a sign from the other machine a connection has ended: one that has lost its power,
or that is cut off, closes nothing."""
PROBE_SECONDS: Final = 2
RECONNECT_SECONDS: Final = 0.2
CONNECT_SECONDS: Final = 2.0


def watch(writer: asyncio.StreamWriter) -> None:
    """Have the system find out when the other machine is there no more, as far as this one can.

    With a time-out for what was sent, it also ends a connection whose other side takes nothing for as long.
    """
    line = writer.get_extra_info("socket")
    line.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    wanted = {
        # macOS calls the first of them otherwise.
        "TCP_KEEPIDLE": PROBE_SECONDS,
        "TCP_KEEPALIVE": PROBE_SECONDS,
        "TCP_KEEPINTVL": PROBE_SECONDS,
        "TCP_KEEPCNT": IDLE_TIMEOUT_SECONDS // PROBE_SECONDS - 1,
        "TCP_USER_TIMEOUT": IDLE_TIMEOUT_SECONDS * 1000,
    }
    for name, value in wanted.items():
        if hasattr(socket, name):
            line.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


async def messages_of(
    reader: asyncio.StreamReader, most_bytes: int = MAX_FRAME_BYTES
) -> AsyncIterator[tuple[int, Any]]:
    """Messages of a connection, each with its group, until it ends.

    Parameters
    ----------
    most_bytes
        Of a frame.

    Raises
    ------
    TornError, InputError
        If what comes is no frame of ours, too long, or nothing that is said over a connection.
    OSError
        If the network or TLS fails.
    """
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            length, crc = HEAD.unpack(await reader.readexactly(HEAD.size))
            if length > most_bytes:
                raise InputError(
                    f"a frame has {length:,} bytes, expected {most_bytes:,} or fewer: send less at once"
                )
            yield opened(decoded(await reader.readexactly(length), crc))


class PeerLink:
    """Frames on their way to one node; connects whenever it is not connected.

    Parameters
    ----------
    speaker
        Who calls.
    to
        The number of the node that is called.
    received
        Takes what the node sends back on the same connection.
    ended
        Called whenever a connection has ended, or could not be made.
    refused
        Takes why the node does not take this side in, when that is another reason than the last time.

    Attributes
    ----------
    trouble
        Why there is no connection; empty while there is one.
    """

    def __init__(
        self,
        address: str,
        speaker: PeerIdentity,
        to: int,
        received: Callable[[Any], None] = lambda message: None,
        ended: Callable[[], None] = lambda: None,
        refused: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._speaker, self._to = speaker, to
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(WAITING_FRAMES)
        self._waiting_bytes = 0
        self._received, self._ended, self._refused = received, ended, refused
        self._rejection = ""
        self.trouble = "not connected yet"

    def send(self, frame: bytes) -> None:
        """Queue a frame, or drop it."""
        if self._queue.full() or self._waiting_bytes >= WAITING_BYTES:
            return
        self._queue.put_nowait(frame)
        self._waiting_bytes += len(frame)

    async def run(self) -> None:
        """Send what is queued, and hear what comes back, for good."""
        tls = self._speaker.keys.calling
        name = None if tls is None else self._host
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(
                        self._host, self._port, ssl=tls, server_hostname=name
                    )
            except (OSError, TimeoutError) as error:
                self.trouble = str(error) or "no answer"
            else:
                await self._talk(reader, writer)
            self._ended()
            # What waited for a node that is away is of no use when it is back.
            while not self._queue.empty():
                self._queue.get_nowait()
            self._waiting_bytes = 0
            await asyncio.sleep(RECONNECT_SECONDS)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sending: asyncio.Task[None] | None = None
        self.trouble = "the node does not say who it is"
        try:
            watch(writer)
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await introduce(reader, writer, self._speaker, self._to)
            self.trouble = self._rejection = ""
            sending = asyncio.create_task(self._send(writer))
            async for told in messages_of(reader):
                self._received(told)
            self.trouble = "the node closed the connection"
        except asyncio.IncompleteReadError:
            self.trouble = "the node closed the connection before it took part, and says why on its side"
        except (TornFrameError, InputError, OSError) as error:
            # A time-out of the handshake says nothing of itself.
            self.trouble = str(error) or self.trouble or "what the node sent is no frame"
            if isinstance(error, InputError) and self.trouble != self._rejection:
                self._rejection = self.trouble
                self._refused(self.trouble)
        finally:
            if sending is not None:
                sending.cancel()
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        # Whoever reads learns of a broken connection, too.
        with suppress(OSError):
            while True:
                frame = await self._queue.get()
                self._waiting_bytes -= len(frame)
                writer.write(frame)
                await writer.drain()
