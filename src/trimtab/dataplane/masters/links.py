"""Connections of a node: frames to other nodes and to clients, over TCP, in bounded queues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

from trimtab.files.masters.frames import HEAD, MOST_BYTES, WIRE, TornError, decoded, encoded
from trimtab.model.errors import InputError

FORMAT: Final = WIRE
WAITING_FRAMES: Final = 10_000
"""What comes after so many is dropped, as a network drops it: the protocol asks again."""
AGAIN_SECONDS: Final = 0.2
CONNECT_SECONDS: Final = 2.0


async def messages_of(reader: asyncio.StreamReader) -> AsyncIterator[Any]:
    """Messages of a connection, until it ends.

    Raises
    ------
    TornError, InputError
        If what comes is no frame of ours.
    """
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            length, crc = HEAD.unpack(await reader.readexactly(HEAD.size))
            if length > MOST_BYTES:
                raise TornError
            yield decoded(await reader.readexactly(length), crc)


class Link:
    """Frames on their way to one node; connects whenever it is not connected.

    Parameters
    ----------
    hello
        The first message of every connection: format, cluster, who speaks.
    heard
        Takes what the node sends back on the same connection.
    ended
        Called whenever a connection has ended, or could not be made.

    Attributes
    ----------
    trouble
        Why there is no connection; empty while there is one.
    """

    def __init__(
        self,
        address: str,
        hello: tuple[Any, ...],
        heard: Callable[[Any], None] = lambda message: None,
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._hello = encoded(hello)
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(WAITING_FRAMES)
        self._heard, self._ended = heard, ended
        self.trouble = "not connected yet"

    def send(self, frame: bytes) -> None:
        """Queue a frame, or drop it."""
        with suppress(asyncio.QueueFull):
            self._queue.put_nowait(frame)

    async def run(self) -> None:
        """Send what is queued, and hear what comes back, for good."""
        while True:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    reader, writer = await asyncio.open_connection(self._host, self._port)
            except (OSError, TimeoutError) as error:
                self.trouble = str(error) or "no answer"
            else:
                await self._talk(reader, writer)
            self._ended()
            # What waited for a node that is away is of no use when it is back.
            while not self._queue.empty():
                self._queue.get_nowait()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.trouble = ""
        writer.write(self._hello)
        sending = asyncio.create_task(self._send(writer))
        try:
            async for message in messages_of(reader):
                self._heard(message)
            self.trouble = "the node closed the connection"
        except (TornError, InputError) as error:
            self.trouble = str(error) or "what the node sent is no frame"
        finally:
            sending.cancel()
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        # Whoever reads learns of a broken connection, too.
        with suppress(ConnectionError):
            while True:
                writer.write(await self._queue.get())
                await writer.drain()


def who_speaks(hello: Any, cluster: str) -> int | str:
    """The node or client of a connection's first message.

    Raises
    ------
    InputError
        If it is of another version or cluster.
    """
    match hello:
        case (str(form), str(of), int() | str() as who) if (form, of) == (FORMAT, cluster):
            return who
    raise InputError(f"a connection began with {hello!r}, expected ({FORMAT!r}, {cluster!r}, who): refused")
