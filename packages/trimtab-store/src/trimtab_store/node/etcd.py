"""A client of an etcd cluster, around aetcd, which knows one member, no time limit and no broken watch."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from trimtab_common.errors import ConnectError
from trimtab_common.extras import Extras
from trimtab_store.node.rate_limited_log import RateLimitedLogger

_EXTRAS: Final = Extras("trimtab-store", {"aetcd": "etcd"})
OPTIONS: Final = {
    # Pages of slots and of snapshots are larger than the 4 MiB that gRPC takes by itself.
    "grpc.max_receive_message_length": -1,
    # gRPC waits for up to two minutes before it tries a member again.
    "grpc.initial_reconnect_backoff_ms": 100,
    "grpc.max_reconnect_backoff_ms": 1000,
}
_LARGER: Final = "set its --max-request-bytes to 1572864, the default, or more"
REMEDIES: Final = {
    "database space exceeded": "it is full, and takes nothing more: have it compact and defragment (etcdctl "
    "compact, etcdctl defrag) or raise its --quota-backend-bytes, then etcdctl alarm disarm",
    "request is too large": _LARGER,
    "received message larger than max": _LARGER,
}
"""Of what etcd says itself, in part, to what is to be done about it."""
DOWN: Final = "a majority of its members must run"
Answer = TypeVar("Answer")


class KeyValue(NamedTuple):
    """A key with its value, and the revisions of the store at which it was made and last changed."""

    key: bytes
    value: bytes
    made: int
    changed: int


class CompactedError(ConnectError):
    """A watch cannot go on where it ended: what happened since must be read."""


class EtcdClient:
    """Calls with a time limit to one member after another, and watches.

    A call that fails may have been carried out. The next one goes to the next member, and so does the watch:
    a member that is cut off from the others keeps its connections, and tells nothing.

    Parameters
    ----------
    endpoints
        Of all members, each `host:port`.
    first
        Which one is asked first.
    timeout_seconds
        Of one call.

    Raises
    ------
    MissingExtraError
        If aetcd is not installed.
    """

    @_EXTRAS.missing_named()
    def __init__(self, endpoints: Sequence[str], first: int, timeout_seconds: float) -> None:
        import aetcd

        self._errors = (aetcd.ClientError, aetcd.rpc.BaseError, OSError, TimeoutError)
        # aetcd tells some compactions as a watch that did not begin in time.
        self._unreachable = aetcd.WatchTimeoutError
        self._lost = (aetcd.RevisionCompactedError, self._unreachable)
        self._puts_only = aetcd.rtypes.EventKind.PUT
        self._endpoints, self._at = list(endpoints), first % len(endpoints)
        self._timeout = timeout_seconds
        self._clients = [
            aetcd.Client(
                host=endpoint.rpartition(":")[0],
                port=int(endpoint.rpartition(":")[2]),
                timeout=timeout_seconds,
                options=OPTIONS,
            )
            for endpoint in self._endpoints
        ]
        self._watch: Any = None
        self._turning: set[asyncio.Task[None]] = set()
        self._reported = ""
        self._limited_log = RateLimitedLogger()
        self.does = self._clients[0].transactions
        """Comparisons and operations of transactions."""

    async def close(self) -> None:
        """End all connections."""
        for client in self._clients:
            with suppress(*self._errors):
                async with asyncio.timeout(self._timeout):
                    await client.close()

    # ------------------------------------------------------------ calls

    async def transact(
        self, compare: Sequence[Any], success: Sequence[Any], failure: Sequence[Any] = ()
    ) -> tuple[bool, list[Any]]:
        """Whether all comparisons held, and the answer to each operation that was carried out.

        Raises
        ------
        ConnectError
            If no answer came in time: whether it was carried out is not known, and it may be later.
        """
        # aetcd walks over both lists without asking whether there is one.
        found: tuple[bool, list[Any]] = await self._call(
            lambda client: client.transaction(list(compare), list(success), list(failure))
        )
        return found

    async def put(self, key: bytes, value: bytes) -> None:
        """Set a key; errors as in `transact`."""
        await self._call(lambda client: client.put(key, value))

    async def range(self, start: bytes, end: bytes) -> tuple[int, list[KeyValue]]:
        """The revision of the store, and keys from one up to another, that one left out, in their order.

        No older than the call (a linearizable read); errors as in `transact`.
        """
        found = await self._call(lambda client: client.get_range(start, end))
        return found.header.revision, [pair(one) for one in sorted(found.kvs, key=lambda one: one.key)]

    async def _call(self, do: Callable[[Any], Awaitable[Answer]]) -> Answer:
        at = self._at
        try:
            # A connection that is being made counts too: aetcd's own limit begins behind it.
            async with asyncio.timeout(self._timeout):
                answer = await do(self._clients[at])
        except self._errors as error:
            raise ConnectError(self._turn(at, error)) from error
        self._reported = ""
        return answer

    def _turn(self, at: int, error: Exception) -> str:
        """Go on with the next member; a sentence on why."""
        what = str(error) or f"no answer in {self._timeout:g} s"
        remedy = next((then for said, then in REMEDIES.items() if said in what), DOWN)
        told = f"etcd at {self._endpoints[at]} fails ({what}): {remedy}"
        if at == self._at:
            self._at = (at + 1) % len(self._endpoints)
            if self._watch is not None and len(self._endpoints) > 1:
                task = asyncio.create_task(self._end(self._watch))
                self._turning.add(task)
                task.add_done_callback(self._turning.discard)
        if told != self._reported:
            self._reported = told
            # Reads go through while it is full, and each next write fails anew.
            self._limited_log.log(told)
        return told

    async def _end(self, watch: Any) -> None:
        with suppress(*self._errors):
            async with asyncio.timeout(self._timeout):
                await watch.cancel()

    # ------------------------------------------------------------ watches

    async def watch(self, prefix: bytes, revision: int) -> AsyncIterator[KeyValue]:
        """What is put under a prefix from a revision on, until the watch breaks.

        Raises
        ------
        HistoryLostError
            If the store does not know any more what happened since that revision.
        ConnectError
            If the member cannot be reached.
        """
        at = self._at
        try:
            async with asyncio.timeout(2 * self._timeout):
                self._watch = watch = await self._clients[at].watch_prefix(
                    prefix, start_revision=revision, kind=self._puts_only
                )
            async for event in watch:
                yield pair(event.kv)
        except self._lost as error:
            if isinstance(error, self._unreachable):
                self._turn(at, error)
            raise CompactedError(f"etcd has forgotten what came after revision {revision}") from error
        except self._errors as error:
            raise ConnectError(self._turn(at, error)) from error
        finally:
            self._watch = None


def pair(found: Any) -> KeyValue:
    """A pair out of whatever aetcd calls one."""
    return KeyValue(bytes(found.key), bytes(found.value), found.create_revision, found.mod_revision)
