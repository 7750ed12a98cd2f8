"""Made-up recordings of Pulsar's load reports, with what balancers are for: a hot bundle, a join, a death.

Nothing in them answers to any balancer: bundles stay where they are, but for those of the broker that dies.
A replay tells what a strategy would have done about it.
"""

import contextlib
import gzip
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from trimtab.files.bundles.reports import report_line
from trimtab.model.bundles.reports import BrokerReport, BundleStats, ReportTick, ResourceUsage
from trimtab.model.bundles.snapshot import bundles_between, initial_boundaries
from trimtab_common.errors import SettingsError
from trimtab_common.files import replacing

FloatArray = NDArray[np.float64]

NAMESPACES = ("shop/orders", "shop/clicks", "plant/sensors")
MESSAGE_BYTES = (2048.0, 512.0, 200.0)
READERS = (2.0, 3.0, 1.0)
"""Of each namespace: the size of its messages, and how often each is read."""

LINK_BYTES_PER_SECOND = 125e6
"""A broker's network, each way: 1 Gbit/s."""
CPU_PERCENT = 800.0
HEAP_MEGABYTES = 8192.0
DIRECT_MEGABYTES = 4096.0
RAMP_SECONDS = 300.0
"""In which the hot bundle gets hot, and cools down."""
DAY_SECONDS = 86400.0


@dataclass(frozen=True)
class RecordedCluster:
    """The subject of a made-up recording.

    Attributes
    ----------
    brokers, bundles
        How many; bundles are dealt out evenly by number, and unevenly by load.
    ticks, tick_seconds
        How many reports of each broker, and the time between them.
    begins
        Seconds since 1970.
    usage
        Mean share of the brokers' network out that is used, without the hot bundle.
    hot
        How much of a broker's network the hot bundle takes up in its hour; 0: none is hot.
    hot_at, joins_at, dies_at
        When, as a share of the recording's length; 1 or more: not at all.
    hot_seconds
        For how long the bundle is hot.
    seed
        Of all chance.
    """

    brokers: int = 20
    bundles: int = 500
    ticks: int = 1440
    tick_seconds: float = 60.0
    begins: float = 1767225600.0
    usage: float = 0.42
    hot: float = 0.5
    hot_at: float = 0.2
    joins_at: float = 0.5
    dies_at: float = 0.75
    hot_seconds: float = 3600.0
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse what cannot be recorded."""
        for name, value, least in (
            ("brokers", self.brokers, 2), ("bundles", self.bundles, self.brokers), ("ticks", self.ticks, 1)
        ):  # fmt: skip
            if value < least:
                raise SettingsError(f"a recording of {value} {name} cannot be made, {least} are the fewest")


def recorded(cluster: RecordedCluster) -> Iterator[ReportTick]:
    """The ticks of a recording, one at a time; the same settings give the same ticks.

    Every bundle has a wave of a day, and noise that lasts some ten minutes. CPU follows messages and bytes;
    memory only breathes.
    """
    chance = np.random.default_rng(cluster.seed)
    keys, kinds = _bundles(cluster.bundles)
    count = len(keys)
    size, readers = np.array(MESSAGE_BYTES)[kinds], np.array(READERS)[kinds]
    base = np.exp(0.9 * chance.standard_normal(count))
    base *= cluster.usage * cluster.brokers * LINK_BYTES_PER_SECOND / (base * size * readers).sum()
    phase = kinds * 0.7 + 0.3 * chance.standard_normal(count)
    topics = 1 + chance.poisson(6, count)
    producers, consumers = topics + chance.poisson(3, count), (topics * readers).astype(np.int64)
    names = [f"broker-{number + 1}:8080" for number in range(cluster.brokers)]
    joiner = f"broker-{cluster.brokers + 1}:8080"
    owner = np.arange(count) % cluster.brokers
    hottest = int(np.argsort(base * size * readers)[count * 3 // 4])
    dying = (int(owner[hottest]) + 1) % cluster.brokers
    length = cluster.ticks * cluster.tick_seconds
    noise = 0.15 * chance.standard_normal(count)
    keep = 0.9
    for tick in range(cluster.ticks):
        elapsed = tick * cluster.tick_seconds
        noise = keep * noise + 0.15 * np.sqrt(1 - keep**2) * chance.standard_normal(count)
        wave = 1 + 0.35 * np.sin(2 * np.pi * elapsed / DAY_SECONDS + phase)
        rate = np.round(base * wave * np.exp(noise), 1)
        heat = _heat(elapsed - cluster.hot_at * length, cluster.hot_seconds)
        if heat:
            extra = cluster.hot * LINK_BYTES_PER_SECOND / (size[hottest] * readers[hottest])
            rate[hottest] = round(float(rate[hottest] + heat * extra), 1)
        living = list(range(cluster.brokers))
        if elapsed >= cluster.dies_at * length:
            living.remove(dying)
            _inherit(owner, dying, living, rate * size * readers)
        stats = [
            BundleStats(*figures)
            for figures in zip(
                rate.tolist(),
                np.round(rate * readers, 1).tolist(),
                np.round(rate * size).tolist(),
                np.round(rate * size * readers).tolist(),
                topics.tolist(),
                consumers.tolist(),
                producers.tolist(),
                strict=True,
            )
        ]
        breath = chance.random(cluster.brokers + 1)
        brokers = {
            names[number]: _report(
                {keys[row]: stats[row] for row in np.flatnonzero(owner == number).tolist()}, breath[number]
            )
            for number in living
        }
        if elapsed >= cluster.joins_at * length:
            brokers[joiner] = _report({}, breath[-1])
        yield ReportTick(cluster.begins + elapsed, brokers)


def _bundles(count: int) -> tuple[list[str], NDArray[np.int64]]:
    """Keys of so many bundles, and the number of each one's namespace; namespaces are much alike in size."""
    shares = [len(range(number, count, len(NAMESPACES))) for number in range(len(NAMESPACES))]
    keys = [
        bundle.key
        for namespace, share in zip(NAMESPACES, shares, strict=True)
        if share
        for bundle in bundles_between(namespace, initial_boundaries(share))
    ]
    return keys, np.repeat(np.arange(len(NAMESPACES)), shares)


def _heat(since: float, lasts: float) -> float:
    """Heat of the hot bundle, 0 to 1: up in `RAMP_SECONDS`, and as fast down."""
    return float(np.clip(min(since, lasts - since) / RAMP_SECONDS, 0.0, 1.0))


def _inherit(owner: NDArray[np.int64], dead: int, living: list[int], load: FloatArray) -> None:
    """Bundles of a dead broker go to the least loaded others, the heaviest first; changes `owner`."""
    left = np.flatnonzero(owner == dead)
    for row in left[np.argsort(-load[left], kind="stable")].tolist():
        held = np.bincount(owner, weights=load, minlength=max(living) + 1)
        owner[row] = min(living, key=lambda number: float(held[number]))


def _report(held: dict[str, BundleStats], load: float) -> BrokerReport:
    """The report of a broker while it holds these."""
    bytes_in = sum(one.msg_throughput_in for one in held.values())
    bytes_out = sum(one.msg_throughput_out for one in held.values())
    rate_in = sum(one.msg_rate_in for one in held.values())
    rate_out = sum(one.msg_rate_out for one in held.values())
    busy = (bytes_in + bytes_out) / LINK_BYTES_PER_SECOND * 0.3 + (rate_in + rate_out) / 600_000 * 0.4
    return BrokerReport(
        cpu=ResourceUsage(round(min(1.0, 0.02 + busy) * CPU_PERCENT, 1), CPU_PERCENT),
        memory=ResourceUsage(round((0.3 + 0.3 * load) * HEAP_MEGABYTES), HEAP_MEGABYTES),
        direct_memory=ResourceUsage(round((0.1 + 0.02 * load) * DIRECT_MEGABYTES), DIRECT_MEGABYTES),
        bandwidth_in=_link(bytes_in),
        bandwidth_out=_link(bytes_out),
        msg_throughput_in=bytes_in,
        msg_throughput_out=bytes_out,
        msg_rate_in=round(rate_in, 1),
        msg_rate_out=round(rate_out, 1),
        bundles=tuple(held),
        last_stats=held,
    )


def _link(bytes_per_second: float) -> ResourceUsage:
    """In kbit/s, as Pulsar writes it; what does not fit through does not flow."""
    limit = LINK_BYTES_PER_SECOND * 8 / 1000
    return ResourceUsage(round(min(limit, 400.0 + bytes_per_second * 8 / 1000)), limit)


def record(cluster: RecordedCluster, path: Path) -> None:
    """Write the recording of a cluster; compressed if the file's name ends with `.gz`."""
    write_recording(recorded(cluster), path)


def write_recording(ticks: Iterable[ReportTick], path: Path) -> None:
    """Write a recording, a tick at a time; the file appears as a whole or not at all.

    Parameters
    ----------
    ticks
        In order of time.
    path
        Compressed if it ends with `.gz`; the same ticks give the same bytes.

    Raises
    ------
    InputError
        If the place cannot be written.
    """
    with replacing(path) as plain:
        packed = gzip.GzipFile("", "wb", 9, plain, mtime=0) if path.suffix == ".gz" else None
        with packed or contextlib.nullcontext(plain) as file:
            for tick in ticks:
                file.write(report_line(tick).encode())
