"""Connections of a node: frames to other nodes and to clients, over TCP, in bounded queues."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any, Final

from trimtab.dataplane.masters.handshake import HANDSHAKE_SECONDS, Speaker, introduce, message
from trimtab.files.masters.frames import MOST_BYTES, TornError
from trimtab.model.errors import InputError

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
    OSError
        If the network or TLS fails.
    """
    with suppress(asyncio.IncompleteReadError, ConnectionError):
        while True:
            yield await message(reader, MOST_BYTES)


class Link:
    """Frames on their way to one node; connects whenever it is not connected.

    Parameters
    ----------
    speaker
        Who calls.
    to
        The number of the node that is called.
    heard
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
        speaker: Speaker,
        to: int,
        heard: Callable[[Any], None] = lambda message: None,
        ended: Callable[[], None] = lambda: None,
        refused: Callable[[str], None] = lambda why: None,
    ) -> None:
        self._host, _, port = address.rpartition(":")
        self._port = int(port)
        self._speaker, self._to = speaker, to
        self._queue: asyncio.Queue[bytes] = asyncio.Queue(WAITING_FRAMES)
        self._heard, self._ended, self._refused = heard, ended, refused
        self._refusal = ""
        self.trouble = "not connected yet"

    def send(self, frame: bytes) -> None:
        """Queue a frame, or drop it."""
        with suppress(asyncio.QueueFull):
            self._queue.put_nowait(frame)

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
            await asyncio.sleep(AGAIN_SECONDS)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sending: asyncio.Task[None] | None = None
        self.trouble = "the node does not say who it is"
        try:
            async with asyncio.timeout(HANDSHAKE_SECONDS):
                await introduce(reader, writer, self._speaker, self._to)
            self.trouble = self._refusal = ""
            sending = asyncio.create_task(self._send(writer))
            async for told in messages_of(reader):
                self._heard(told)
            self.trouble = "the node closed the connection"
        except asyncio.IncompleteReadError:
            self.trouble = "the node closed the connection before it took part, and says why on its side"
        except (TornError, InputError, OSError) as error:
            # A time-out of the handshake says nothing of itself.
            self.trouble = str(error) or self.trouble or "what the node sent is no frame"
            if isinstance(error, InputError) and self.trouble != self._refusal:
                self._refusal = self.trouble
                self._refused(self.trouble)
        finally:
            if sending is not None:
                sending.cancel()
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        # Whoever reads learns of a broken connection, too.
        with suppress(OSError):
            while True:
                writer.write(await self._queue.get())
                await writer.drain()
