"""The demo's world: brokers, one loaded topic, and the pipeline that reads it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from trimtab.files.keys.snapshot import FORMAT as SNAPSHOTS
from trimtab.history.keys.zipf import Zipf, key_name
from trimtab.jars.fetch import ProgressCallback, spark_kafka_jars
from trimtab.lab.demo.turn import DemoPipeline
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.keys.load import GROUP, TICK_SECONDS, KeyedLoad, LoadedTopic
from trimtab.model.keys.snapshot import KeysSnapshot
from trimtab.observe.keys.pipeline import PIPELINE, KeysPipelineSettings
from trimtab.observe.lake import Lake
from trimtab.online.keys.murmur2 import POSITIVE, murmur2
from trimtab.systems.kafka.client import open_admin
from trimtab.systems.kafka.offset_sampling import OffsetSampling
from trimtab.systems.kafka.settings import KafkaConnection, spark_options

BROKERS: Final = 3
PARTITIONS: Final = 4
PRODUCERS: Final = 2
KEY_DISTRIBUTION: Final = Zipf(1.4)
CONSUMER_PER_SECOND: Final = 50.0
"""What each consumer can do; each has a partition."""
RATE: Final = 0.55 * PARTITIONS * CONSUMER_PER_SECOND
"""Records a second that producers send in all: all consumers together have room."""
FULLEST: Final = (1.15, 1.35)
"""Of what its consumer can do, the fullest partition gets so much by the plain hash."""


@dataclass
class KeysDemoSetup:
    """A loaded topic, and what reads it."""

    connection: KafkaConnection
    loaded: LoadedTopic
    lake: Lake
    pipeline: DemoPipeline
    offset_sampling: OffsetSampling
    folder: Path

    def watch(self, seconds: float, text: Callable[[str, bool], None]) -> tuple[float, float]:
        """Look on for so long; when that began and ended, seconds since 1970."""
        begun = time.time()
        while (now := time.time()) < begun + seconds:
            text(f"{now - begun:.0f} s: {self.loaded.backlog().text}", False)
            time.sleep(TICK_SECONDS)
        text(f"{seconds:.0f} s: {self.loaded.backlog().text}", True)
        return begun, time.time()

    def observe(self) -> KeysSnapshot:
        """The topic as Spark reads it now; the look before it is the begin of its rates."""
        self.offset_sampling.read(self.pipeline.session, spark_options(self.connection))
        self.pipeline.run(self.lake, lambda line: None)
        return SNAPSHOTS.read(Path(str(self.lake.newest_snapshot())))


def names_drawn(seed: int) -> tuple[int, int, float]:
    """Names of keys with which the plain hash fills one partition too much.

    Returns
    -------
    tuple
        Which names; the fullest partition, and what arrives there over what its consumer can do.
    """
    shares = KEY_DISTRIBUTION.shares()
    for names in count(1 + 10 * seed):
        loads = [0.0] * PARTITIONS
        for rank, share in enumerate(shares):
            loads[(murmur2(key_name(rank, names)) & POSITIVE) % PARTITIONS] += share
        full = max(loads) * RATE / CONSUMER_PER_SECOND
        if FULLEST[0] <= full <= FULLEST[1]:
            return names, loads.index(max(loads)), full
    raise AssertionError("names do not end")


@contextmanager
def demo_setup(seed: int, sample_seconds: float, print_progress: ProgressCallback) -> Iterator[KeysDemoSetup]:
    """Brokers, a topic and a pipeline; all gone afterwards."""
    chosen = KeysPipelineSettings(sample_interval_seconds=sample_seconds)
    names, _, _ = names_drawn(seed)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(prefix="trimtab-keys-")))
        sandbox = stack.enter_context(
            KafkaSandbox.start(
                BROKERS, prometheus=False, folder=folder / "sandbox", print_progress=print_progress
            )
        )
        pipeline = DemoPipeline(folder / "spark", chosen, tuple(spark_kafka_jars(print_progress)))
        stack.callback(pipeline.close)
        admin = stack.enter_context(open_admin(sandbox.connection, request_timeout_ms=15_000))
        load = KeyedLoad(
            key_distribution=KEY_DISTRIBUTION, names=names, partitions=PARTITIONS, rate=RATE,
            producers=PRODUCERS,
            consumers=PARTITIONS, consumer_rate=CONSUMER_PER_SECOND,
        )  # fmt: skip
        loaded = LoadedTopic(sandbox.connection, admin, folder / "work", load)
        stack.callback(loaded.close)
        lake = Lake(folder / "lake", PIPELINE)
        reading = OffsetSampling(loaded.topic, chosen, GROUP, lake, print_progress)
        yield KeysDemoSetup(sandbox.connection, loaded, lake, pipeline, reading, folder)
