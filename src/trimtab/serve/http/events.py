"""Decisions as server-sent events: one thread waits for new ones, any number of streams sends them."""

from __future__ import annotations

import asyncio
import logging
import re
import threading
import time
from typing import TYPE_CHECKING

import msgspec
from msgspec import UNSET, UnsetType
from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from starlette.requests import Request

    from trimtab.serve.documents import DecisionRecord
    from trimtab.serve.http.operations import Calls
    from trimtab.serve.interface import ServiceInterface

LOG = logging.getLogger("trimtab.serve.http")
HEARTBEAT_SECONDS = 15.0
STREAM_SECONDS = 600.0
"""After this time a client connects again, with its token: a token that is deleted ends its streams."""
WAIT_SECONDS = 1.0
MAX_STREAMS = 100
BATCH = 500


class EventStreams:
    """All streams of one application.

    Parameters
    ----------
    service
        Gives the decisions.
    calls
        Runs calls of the service in threads.
    heartbeat_seconds
        Time between two comments, which show proxies and clients that the connection lives.
    """

    def __init__(
        self, service: ServiceInterface, calls: Calls, heartbeat_seconds: float = HEARTBEAT_SECONDS
    ) -> None:
        self._service = service
        self._calls = calls
        self._heartbeat_seconds = heartbeat_seconds
        self._lock = threading.Lock()
        self._streams: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._thread: threading.Thread | None = None
        self._closed = threading.Event()

    async def answer(self, request: Request, after: int | UnsetType) -> Response:
        """The stream for a request, from the decision after `Last-Event-ID` or `after`, else from now."""
        header = request.headers.get("last-event-id")
        if header is not None and not re.fullmatch(r"[0-9]{1,15}", header):
            raise HTTPException(400, "the header Last-Event-ID is not the number of a decision")
        headers = {"X-Accel-Buffering": "no"}
        if request.method == "HEAD":
            return Response(headers=headers, media_type="text/event-stream")
        if self.number >= MAX_STREAMS or self._closed.is_set():
            raise HTTPException(503, f"{MAX_STREAMS} streams are open", {"Retry-After": "10"})
        first = int(header) if header is not None else after
        if first is UNSET:
            first = await self._newest()
        return StreamingResponse(self._content(first), headers=headers, media_type="text/event-stream")

    @property
    def number(self) -> int:
        """Number of the streams that are open now."""
        return len(self._streams)

    def close(self) -> None:
        """End all streams; from any thread."""
        self._closed.set()
        self._wake()

    async def _newest(self) -> int:
        found = await self._read(None, 1)
        return found[0].number if found else 0

    async def _read(self, after: int | None, limit: int) -> Sequence[DecisionRecord]:
        found: Sequence[DecisionRecord] = await self._calls.run(  # type: ignore[assignment]
            lambda: self._service.decisions(after, limit)
        )
        return found

    async def _content(self, after: int) -> AsyncIterator[bytes]:
        changed, end = asyncio.Event(), time.monotonic() + STREAM_SECONDS
        self._register(changed)
        try:
            yield b": connected\n\n"
            while not self._closed.is_set() and time.monotonic() < end:
                changed.clear()
                found = await self._read(after, BATCH)
                for one in found:
                    yield b"id: %d\nevent: decision\ndata: %s\n\n" % (one.number, msgspec.json.encode(one))
                    after = one.number
                if not found:
                    try:
                        await asyncio.wait_for(changed.wait(), self._heartbeat_seconds)
                    except TimeoutError:
                        yield b": heartbeat\n\n"
        finally:
            with self._lock:
                del self._streams[changed]

    def _register(self, changed: asyncio.Event) -> None:
        with self._lock:
            self._streams[changed] = asyncio.get_running_loop()
            if self._thread is None:
                self._thread = threading.Thread(target=self._watch, name="events", daemon=True)
                self._thread.start()

    def _watch(self) -> None:
        """Wake all streams when there is a new decision, until the end of the application."""
        newest = 0
        while not self._closed.is_set():
            try:
                if not newest:
                    newest = max((one.number for one in self._service.decisions(None, 1)), default=0)
                found = self._service.wait_for_decisions(newest, WAIT_SECONDS)
            except Exception:
                LOG.exception("decisions cannot be read; the next attempt is in %.0f s", WAIT_SECONDS)
                self._closed.wait(WAIT_SECONDS)
                continue
            if found:
                newest = max(one.number for one in found)
                self._wake()

    def _wake(self) -> None:
        with self._lock:
            for changed, loop in self._streams.items():
                if not loop.is_closed():
                    loop.call_soon_threadsafe(changed.set)
