"""The client of a server of queues: its connection, and the data on the server.

Counters, reports and published weights are read at once, and written by version.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import SplitResult, urlsplit

from trimtab.extras import missing_extra_named
from trimtab.systems.connection import ClusterTable, Connection, connection_of
from trimtab_common.errors import ConnectError, InputError, SettingsError
from trimtab_queues.format.documents import (
    CLUSTER,
    HISTORY,
    RETENTION_SECONDS,
    ProcessReport,
    PublishedWeights,
    RedisKeys,
    credentials_of,
    document,
    full_address,
    is_cluster,
    nodes_of,
    read_published,
    read_report,
    script_source,
    without_password,
)

if TYPE_CHECKING:
    from redis import Redis, RedisCluster


SCHEMES: Final = ("redis", "rediss")


@dataclass(frozen=True)
class RedisConnection(Connection):
    """Connection to the server of one set of queues.

    Parameters
    ----------
    url
        Server `redis://host:port/database`, `rediss://` over TLS, or nodes of a cluster,
        `redis+cluster://host:port,host:port`.
    name
        Name of the set of queues, as in its brokers; samples are stored under it.
    password
        Password of the server.
    timeout_seconds
        Time-out of a response.
    """

    url: str
    name: str = "queues"
    password: str | None = field(default=None, repr=False)
    timeout_seconds: float = 5.0

    def __post_init__(self) -> None:
        """Refuse settings that no client could use."""
        parts = urlsplit("")
        try:
            parts = urlsplit(self.url)
            sound = bool(nodes_of(self.url)) if is_cluster(self.url) else _names_a_server(parts)
        except (ValueError, InputError):
            sound = False
        if not sound:
            example = f"{CLUSTER}://host:6379,host:6380" if parts.scheme == CLUSTER else "redis://host:6379/0"
            shown = "an address with a password in it" if parts.password else repr(self.url)
            raise SettingsError(f"the address is {shown}: write it like {example}")
        if parts.scheme != "rediss" and (self.tls_ca or self.tls_certificate):
            raise SettingsError(
                "a tls_ file is set, but the address is not over TLS: write rediss://, or leave the "
                "tls_ keys out"
            )
        if not self.name:
            raise SettingsError("name is empty: name the set of queues as its brokers do")
        super().__post_init__()
        if not 0 < self.timeout_seconds < float("inf"):
            raise SettingsError(f"timeout_seconds is {self.timeout_seconds}: it must be above 0")

    @property
    def safe_url(self) -> str:
        """The address without a password, for messages."""
        return without_password(self.url)

    @property
    def full_url(self) -> str:
        """The address as the client takes it, with password and TLS files."""
        if not self.url.startswith("rediss"):
            return full_address(self.url, self.password)
        return full_address(
            self.url,
            self.password,
            ssl_ca_certs=self.tls_ca,
            ssl_certfile=self.tls_certificate,
            ssl_keyfile=self.tls_key,
            ssl_check_hostname=None if self.tls_verify_hostname else "false",
        )


def _names_a_server(parts: SplitResult) -> bool:
    return parts.scheme in SCHEMES and bool(parts.hostname) and (parts.port is None or parts.port > 0)


def redis_connection(cluster: ClusterTable) -> RedisConnection:
    """The connection that the keys of a set of queues describe; errors as in `connection_of`."""
    return connection_of(cluster, RedisConnection, system="redis", secret="password")


FIELDS: Final = ("length", "work", "held", "held_work", "arrived", "served", "paused", "until")
"""Counters of a queue, whole numbers; work in microseconds, `until` in milliseconds of the server's clock."""

_PUBLISH: Final = """
local found = redis.call('HGET', KEYS[2], 'newest') or '0'
if found ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[3])
redis.call('HSET', KEYS[2], 'newest', ARGV[2], ARGV[2], ARGV[3])
redis.call('HDEL', KEYS[2], string.format('%.0f', tonumber(ARGV[2]) - tonumber(ARGV[4])))
return 1
"""
"""A version is published by whoever has seen the one before it, and by nobody else."""


@dataclass(frozen=True)
class DeadLetter:
    """A message that was given up, since workers died with it.

    Attributes
    ----------
    id
        Its name among the dead letters.
    task_id
        taskiq's.
    class_name, affinity_key
        As of the message; the key is empty for none.
    weight
        Seconds of processing.
    queue
        Where it lay.
    deaths
        Each worker that died with it, and when, in seconds since 1970 by the server's clock.
    body
        What taskiq has written.
    """

    id: str
    task_id: str
    class_name: str
    affinity_key: str
    weight: float
    queue: int
    deaths: tuple[tuple[str, float], ...]
    body: bytes


@dataclass(frozen=True)
class QueueCounters:
    """All queues at an instant.

    Attributes
    ----------
    at
        Seconds since 1970, by the server's clock.
    queues
        By number: the counters of `FIELDS`.
    """

    at: float
    queues: Mapping[int, Mapping[str, int]]


class QueueServerClient:
    """One set of queues on its server, or in a cluster, where each of its slots has some of the queues.

    What processes and trimtab tell one another lies in the first slot. Every method raises `ConnectError` if
    the server does not answer, or refuses.
    """

    def __init__(self, client: Redis | RedisCluster, connection: RedisConnection) -> None:
        self._client: Any = client
        self.connection = connection
        self._cluster = is_cluster(connection.url)
        self.keys = self._slot(0) if self._cluster else RedisKeys(connection.name)

    @property
    def id(self) -> str:
        """The set of queues by name and place."""
        return f"{self.connection.name} at {self.connection.safe_url}"

    def about(self) -> dict[str, Any]:
        """What the server tells of itself."""
        return dict(self._request(lambda: self._client.info(**self._node())))

    def settings(self, *names: str) -> dict[str, str]:
        """Settings of the server by name, those that it tells."""

        def read() -> dict[str, str]:
            found: dict[str, str] = {}
            for one in names:
                found |= self._client.config_get(one, **self._node())
            return found

        return dict(self._request(read))

    def counters(self) -> QueueCounters:
        """Counters of all queues, changed by the same scripts that move messages."""
        seconds, microseconds = self._request(lambda: self._client.time(**self._node()))
        slots = self._each_slot()
        found: dict[int, dict[str, int]] = {}
        for slot, keys in enumerate(slots):
            for name, value in self._request(lambda keys=keys: self._client.hgetall(keys.counts)).items():
                field, _, place = name.decode().rpartition(":")
                if field in FIELDS and place.isdecimal():
                    queue = int(place) * len(slots) + slot
                    found.setdefault(queue, {})[field] = int(value or 0)
        return QueueCounters(seconds + microseconds / 1e6, dict(sorted(found.items())))

    def dead_letter_count(self) -> int:
        """How many messages were given up."""
        slots = self._each_slot()
        return sum(self._request(lambda keys=keys: self._client.xlen(f"{keys.base}:dead")) for keys in slots)

    def dead_letters(self) -> list[DeadLetter]:
        """Messages that were given up, the oldest of each slot first."""
        slots = self._each_slot()
        found: list[DeadLetter] = []
        for slot, keys in enumerate(slots):
            letters: Any = self._request(lambda keys=keys: self._client.xrange(f"{keys.base}:dead"))
            for name, fields in letters:
                told = {key.decode(): value for key, value in fields.items()}
                deaths = [one.rpartition("@") for one in told["x"].decode().split()]
                found.append(
                    DeadLetter(
                        id=f"{slot}/{name.decode()}" if self._cluster else name.decode(),
                        task_id=told["t"].decode(),
                        class_name=told["c"].decode(),
                        affinity_key=told["k"].decode(),
                        weight=int(told["w"]) / 1e6,
                        queue=int(told["q"]) * len(slots) + slot,
                        deaths=tuple((worker, int(at) / 1000) for worker, _, at in deaths),
                        body=told["m"],
                    )
                )
        return found

    def requeue(self, letter: DeadLetter) -> bool:
        """Put a dead letter into a queue again; False, and nothing done, where it is no dead letter any more.

        It goes to the queue of its affinity key, else to the one with the least work, of its slot in a
        cluster, one with a worker before others.
        """
        slots = self._each_slot()
        slot = int(letter.id.partition("/")[0]) if self._cluster else 0
        seen = self.counters()
        there = {queue: one for queue, one in seen.queues.items() if queue % len(slots) == slot}
        queue = min(
            there,
            key=lambda one: (
                there[one].get("until", 0) / 1000 <= seen.at, there[one].get("work", 0), one
            ),
            default=slot,
        )  # fmt: skip
        words = (letter.id.rpartition("/")[2], str(queue // len(slots)))
        return bool(
            self._request(lambda: self._client.eval(script_source("requeue"), 1, slots[slot].base, *words))
        )

    def reports(self) -> list[ProcessReport]:
        """The newest report of each process that told something of late, by name."""

        def read() -> list[Any]:
            seconds, _ = self._client.time(**self._node())
            names: Any = self._client.zrangebyscore(self.keys.processes, seconds - RETENTION_SECONDS, "+inf")
            return list(self._client.mget([self.keys.report(one.decode()) for one in names])) if names else []

        found = [read_report(one) for one in self._request(read) if one is not None]
        return sorted((one for one in found if one is not None), key=lambda one: one.process)

    def published(self) -> PublishedWeights | None:
        """What is published; None for nothing.

        Raises
        ------
        InputError
            If it cannot be read.
        """
        data = self._request(lambda: self._client.get(self.keys.published))
        return (
            None
            if data is None
            else read_published(data, f"{self.keys.published} of {self.connection.safe_url}")
        )

    def history(self) -> list[PublishedWeights]:
        """The last documents that were published, the oldest first."""
        found = self._request(lambda: self._client.hgetall(self.keys.history))
        documents = [
            read_published(data, f"{self.keys.history} of {self.connection.safe_url}")
            for name, data in found.items()
            if name != b"newest"
        ]
        return sorted(documents, key=lambda one: one.version)

    def publish(self, new: PublishedWeights) -> bool:
        """Publish a document; False, and nothing done, where its version is not the next."""
        keys = (self.keys.published, self.keys.history)
        words = (str(new.version - 1), str(new.version), document(new), str(HISTORY))
        return bool(self._request(lambda: self._client.eval(_PUBLISH, len(keys), *keys, *words)))

    def claims(self) -> frozenset[str]:
        """Texts of trimtabs that act here."""
        return frozenset(
            one.decode() for one in self._request(lambda: self._client.smembers(self.keys.claims))
        )

    def change_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """Leave some texts and remove others, in one change."""

        def change() -> None:
            with self._client.pipeline(transaction=True) as calls:
                if added:
                    calls.sadd(self.keys.claims, *added)
                if removed:
                    calls.srem(self.keys.claims, *removed)
                calls.execute()

        self._request(change)

    def _slot(self, slot: int) -> RedisKeys:
        return RedisKeys(f"{self.connection.name}/{slot}")

    def _each_slot(self) -> list[RedisKeys]:
        return self._request(self._slots) if self._cluster else [self.keys]

    def _slots(self) -> list[RedisKeys]:
        """Keys of each slot over which the queues are spread: those that have a queue."""
        found: list[RedisKeys] = []
        while self._client.exists(f"{(keys := self._slot(len(found))).base}:queue:0"):
            found.append(keys)
        return found

    def _node(self) -> dict[str, Any]:
        """Which node is asked what no key says."""
        if not self._cluster:
            return {}
        return {"target_nodes": self._client.get_node_from_key(self.keys.published)}

    def _request(self, call: Any) -> Any:
        from redis.exceptions import RedisClusterException, RedisError

        try:
            return call()
        except (RedisError, RedisClusterException, OSError) as error:
            raise _translate_errors(self.connection, error) from error


@contextmanager
@missing_extra_named()
def open_server(connection: RedisConnection) -> Iterator[QueueServerClient]:
    """A set of queues on a connection of its own.

    Raises
    ------
    ConnectError
        If the nodes of a cluster do not answer.
    """
    from redis import Redis, RedisCluster
    from redis.backoff import NoBackoff
    from redis.cluster import ClusterNode
    from redis.exceptions import RedisClusterException, RedisError
    from redis.retry import Retry

    settings: dict[str, Any] = {
        "socket_timeout": connection.timeout_seconds,
        "socket_connect_timeout": connection.timeout_seconds,
        "retry": Retry(NoBackoff(), 0),
    }
    client: Redis | RedisCluster
    if is_cluster(connection.url):
        nodes = [ClusterNode(*one) for one in nodes_of(connection.url)]  # type: ignore[no-untyped-call]
        settings |= credentials_of(connection.full_url)
        try:
            client = RedisCluster(startup_nodes=nodes, **settings)
        except (RedisError, RedisClusterException, OSError) as error:
            raise _translate_errors(connection, error) from error
    else:
        client = Redis.from_url(connection.full_url, **settings)
    try:
        yield QueueServerClient(client, connection)
    finally:
        client.close()


def _translate_errors(connection: RedisConnection, error: Exception) -> ConnectError:
    return ConnectError(
        f"the server of the queues at {connection.safe_url} does not answer as it should: {error}; "
        "start it, or correct the cluster's address and password"
    )
