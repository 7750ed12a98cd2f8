"""Documents of queues: settings, weights, and the samples and figures of workers and servers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from math import isfinite
from typing import Annotated, Any, Final
from urllib.parse import quote, unquote, urlencode, urlsplit, urlunsplit

import msgspec
from msgspec import Meta

from trimtab_common.documents import Count, Fraction, Positive, Share, SmallShare
from trimtab_common.errors import InputError
from trimtab_common.settings import RejectCallback, Section
from trimtab_queues.core.ordering import OVERTAKE_SECONDS
from trimtab_queues.core.scheduling import HANG_SECONDS, SchedulingSettings


@dataclass(frozen=True)
class QueuesSettings:
    """Queues, their dispatch, and how weights are learned.

    Attributes
    ----------
    strategy
        Planner: `trim`.
    theta
        Highest work of a queue, as a share of the work of a full queue with messages of mean weight (the
        paper's α).
    epsilon
        Highest deviation γ of a queue's work from the mean of the queues, 0 < ε < 1.
    min_utilization
        Queues with a mean share of work below this are not balanced: all are light (the paper's β).
    min_change
        Minimum relative change of a class weight. Smaller changes do not change dispatch and are not
        published.
    confidence
        Minimum change of a class weight in standard errors of the measurement.
    min_samples
        Minimum number of measured messages of a class.
    publish_settings
        Whether a plan also publishes `policy` and `[queues.scheduling]`, if processes use other values.
    queues
        Number of queues: the largest number of workers that can be busy at once.
    capacity
        Maximum number of messages in a queue.
    policy
        Dispatch policy, by its name in `trimtab_queues.core`.
    weights
        Seconds of processing by class, until weights are published.
    default_weight
        Seconds of processing of classes without a weight.
    enqueue_timeout_seconds
        Time for which a sender waits if no queue is open; -1: no limit.
    heartbeat_timeout_seconds
        Heartbeat timeout of a worker.
    max_worker_crashes
        After this many worker crashes the message goes to the dead-letter queue.
    hang_timeout_seconds
        A worker hangs if it finishes nothing for this time plus three times the weight of its current
        messages. Waiting messages behind it go to other queues.
    max_overtake_seconds
        Quick messages overtake messages of the same queue that arrived up to this long before them; 0: strict
        order of arrival.
    slots
        Number of hash slots of a Redis Cluster over which the queues are spread.
    max_async_tasks
        Number of messages that a worker inside a process handles at once. For workers of a server use `taskiq
        worker --max-async-tasks`.
    scheduling
        Settings of balance scheduling.
    """

    strategy: str = "trim"
    theta: tuple[Share, ...] = (0.8,)
    epsilon: tuple[Fraction, ...] = (0.1,)
    min_utilization: SmallShare = 0.1
    min_change: Annotated[float, Meta(ge=0)] = 0.2
    confidence: Annotated[float, Meta(ge=0)] = 3.0
    min_samples: Positive = 30
    publish_settings: bool = False
    queues: int = 4
    capacity: int = 10_000
    policy: str = "least_work_left"
    weights: dict[str, float] = field(default_factory=dict)
    default_weight: Annotated[float, Meta(gt=0, le=1e6)] = 1.0
    enqueue_timeout_seconds: float = 0.0
    heartbeat_timeout_seconds: float = 10.0
    max_worker_crashes: int = 5
    hang_timeout_seconds: float = HANG_SECONDS
    max_overtake_seconds: float = OVERTAKE_SECONDS
    slots: int = 3
    max_async_tasks: int = 1
    scheduling: SchedulingSettings = field(default_factory=SchedulingSettings)


_COUNTS: Final = ("queues", "capacity", "max_worker_crashes", "slots", "max_async_tasks")
_DURATIONS: Final = ("heartbeat_timeout_seconds", "hang_timeout_seconds")


def check_numbers(values: Mapping[str, Any], refuse: RejectCallback) -> None:
    """Refuse numbers of a broker that are out of range, in a file or as arguments.

    Parameters
    ----------
    values
        By name; `enqueue_timeout_seconds` is None for ever.
    """
    for name in _COUNTS:
        if not isinstance(values[name], int) or isinstance(values[name], bool) or values[name] < 1:
            refuse(name, values[name], "a whole number, 1 or more")
    for name in _DURATIONS:
        if not _is_number(values[name]) or values[name] <= 0:
            refuse(name, values[name], "seconds above 0")
    if not _is_number(values["max_overtake_seconds"]) or values["max_overtake_seconds"] < 0:
        refuse("max_overtake_seconds", values["max_overtake_seconds"], "seconds, 0 or more")
    wait = values["enqueue_timeout_seconds"]
    if wait is not None and (not _is_number(wait) or wait < 0):
        refuse("enqueue_timeout_seconds", wait, "seconds, 0 or more")


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)


def _check(settings: QueuesSettings, refuse: RejectCallback) -> None:
    if settings.enqueue_timeout_seconds < 0 and settings.enqueue_timeout_seconds != -1:
        refuse(
            "enqueue_timeout_seconds", settings.enqueue_timeout_seconds, "seconds, 0 or more, or -1 for ever"
        )
    check_numbers(
        {**vars(settings), "enqueue_timeout_seconds": max(0.0, settings.enqueue_timeout_seconds)}, refuse
    )
    for name, seconds in settings.weights.items():
        if not 0 < seconds <= 1e6:
            refuse(
                "weights", settings.weights, f"seconds above 0 and at most 1e6, and {name} has {seconds:g}"
            )


SECTION: Final = Section("queues", QueuesSettings, ("theta", "epsilon"), ("work",), _check)


FORMAT: Final = "trimtab/queues-published/1"
RETENTION_SECONDS: Final = 600.0
"""A report of a process that is silent is there for so long."""
HISTORY: Final = 100
"""Published documents that the server keeps, the newest."""
CLASSES_MAX: Final = 200
"""Classes that a report tells apart; further ones count as `OTHER_CLASSES`."""
OTHER_CLASSES: Final = "(others)"
WAIT_BUCKETS: Final = 48
"""Waits are counted by their length: bucket k holds those of at most √2 to the power k milliseconds."""

WeightSeconds = Annotated[float, Meta(gt=0, le=1e6)]
"""Seconds of processing of a message."""


class ClassReport(msgspec.Struct, omit_defaults=True):
    """What one process has seen of one class since it began.

    Attributes
    ----------
    weight
        Seconds by which it is dispatched now.
    processed, busy_seconds, busy_squares
        Messages that were processed, their processing times and the squares of those, seconds and seconds².
    waited_seconds, waits
        From accepted to begun: the sum, and how many waits were of each length (`WAIT_BUCKETS`).
    accepted, refused
        Messages that this process sent, and that it could not send for want of an open queue.
    """

    weight: float = 0.0
    processed: int = 0
    busy_seconds: float = 0.0
    busy_squares: float = 0.0
    waited_seconds: float = 0.0
    waits: list[int] = []
    accepted: int = 0
    refused: int = 0


class ProcessReport(msgspec.Struct, kw_only=True):
    """What one process of a set of queues tells.

    Attributes
    ----------
    at
        Seconds since 1970, by its own clock.
    queue
        That it empties; None for one that only sends.
    queues, capacity
        How many queues there are, and the most messages that each may hold.
    version
        Of the published document that it goes by; 0 for none.
    policy, scheduling
        Name of its dispatch policy, and settings of balance scheduling; None for none of it.
    """

    process: str
    at: float
    queue: int | None
    queues: int
    capacity: int
    version: int
    default_weight: float
    policy: str
    scheduling: dict[str, float | str] | None
    classes: dict[str, ClassReport]


class PublishedWeights(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Weights and settings that all processes of a set of queues go by.

    Attributes
    ----------
    version
        From 1; grows by one with each.
    published_at
        Seconds since 1970.
    weights
        Seconds of processing by class; they go before what a program says itself.
    settings
        Keys of balance scheduling (`trimtab_queues.core.scheduling.SchedulingSettings`), and `policy`.
    """

    format: str = FORMAT
    version: Count
    published_at: float
    weights: dict[str, WeightSeconds]
    settings: dict[str, float | str] = {}


class RedisKeys:
    """Names of keys of a set of queues on its server; they share a hash tag, so that they lie in one slot."""

    def __init__(self, name: str) -> None:
        self.base = f"{{trimtab:{name}}}"
        self.counts = f"{self.base}:counts"
        self.processes = f"{self.base}:processes"
        self.published = f"{self.base}:published"
        self.history = f"{self.base}:published:history"
        self.claims = f"{self.base}:claims"

    def report(self, process: str) -> str:
        """Of the report of a process."""
        return f"{self.base}:report:{process}"


def read_published(data: bytes, subject: str) -> PublishedWeights:
    """A published document.

    Raises
    ------
    InputError
        If it is none, or of another version of the format.
    """
    try:
        found = msgspec.json.decode(data, type=PublishedWeights)
    except msgspec.DecodeError as error:
        raise InputError(f"{subject}: is no {FORMAT} ({error}); publish anew with trimtab apply") from None
    if found.format != FORMAT:
        raise InputError(f"{subject}: is {found.format}, this trimtab reads {FORMAT}; use one that wrote it")
    return found


def read_report(data: bytes) -> ProcessReport | None:
    """A report; None where it cannot be read."""
    try:
        return msgspec.json.decode(data, type=ProcessReport)
    except msgspec.DecodeError:
        return None


def document(value: ProcessReport | PublishedWeights) -> bytes:
    """The JSON text of either."""
    return msgspec.json.encode(value)


CLUSTER: Final = "redis+cluster"
"""Scheme of an address of nodes: redis+cluster://host:port,host:port."""


def full_address(url: str, password: str | None = None, **tls: object) -> str:
    """An address that clients take as it is: with password and TLS files, as far as they are given.

    Parameters
    ----------
    tls
        Of the client's own options (`ssl_ca_certs`, ...); None is left out.
    """
    parts = urlsplit(url)
    if password is not None and parts.password is None:
        place = parts.netloc.rpartition("@")[2]
        parts = parts._replace(
            netloc=f"{quote(parts.username or '', safe='')}:{quote(password, safe='')}@{place}"
        )
    more = {name: str(value) for name, value in tls.items() if value is not None}
    query = "&".join(part for part in (parts.query, urlencode(more)) if part)
    return urlunsplit(parts._replace(query=query))


def without_password(url: str) -> str:
    """An address as messages show it."""
    parts = urlsplit(url)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()


def is_cluster(url: str) -> bool:
    """Whether an address names nodes of a cluster."""
    return urlsplit(url).scheme == CLUSTER


def nodes_of(url: str) -> list[tuple[str, int]]:
    """Host and port of each node that an address names.

    Raises
    ------
    InputError
        If it is not redis+cluster://host:port,host:port.
    """
    found = []
    for one in urlsplit(url).netloc.rpartition("@")[2].split(","):
        host, _, port = one.rpartition(":")
        if not host or not port.isdigit():
            raise InputError(
                f"address of a cluster is {without_password(url)!r}, expected {CLUSTER}://host:port,host:port"
            )
        found.append((host, int(port)))
    return found


def credentials_of(url: str) -> dict[str, Any]:
    """User and password in the address of a cluster, as clients name them; empty for none."""
    parts = urlsplit(url)
    told = {"username": parts.username, "password": parts.password}
    return {name: unquote(one) for name, one in told.items() if one}


SCRIPTS: Final = (
    "arrive", "beat", "beside", "claim", "cross_out", "finish", "grace", "lease", "look", "mark", "move",
    "opened", "put", "release", "requeue", "start", "take",
)  # fmt: skip


ON_A_FULL_SERVER: Final = ("beat", "claim", "finish", "release", "start", "take")
"""What must go on there, or the server would never have room again; Redis has words for it since 7.0."""


@cache
def script_source(name: str, on_a_full_server: bool = False) -> str:
    """The text of a script, with what all of them share before it."""
    folder = files(__package__) / "lua"
    texts = [(folder / f"{one}.lua").read_text(encoding="utf-8") for one in ("common", name)]
    return "\n".join(["#!lua flags=allow-oom", *texts] if on_a_full_server else texts)
