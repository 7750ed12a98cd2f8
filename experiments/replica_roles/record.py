"""Draws the experiment's load and its default placements from seeds, and writes them down.

`python experiments/replica_roles/record.py` writes `workload.json` and `draws/kafka-2-N.json` anew; the same
seeds give the same files. `record.py --controller` starts six brokers, leaves the placement to their
controller, and writes down what it chose: its chance takes no seed, so that draw can be kept but not redrawn.
`run.py` reads the files, so that what was measured can be measured again even if the drawing changes.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np

from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.kafka.placement import SandboxPlacement, draw_placement, record_placement
from trimtab.lab.sandbox.kafka.topics import SEGMENT_BYTES, create_topics
from trimtab.lab.sandbox.kafka.workload import KafkaTopicLoad, KafkaWorkload, read_workload
from trimtab.systems.kafka.client import admin_client

FOLDER = Path(__file__).parent
BROKERS = tuple(range(1, 7))
WORKLOAD_SEED = 5
PLACEMENT_SEEDS = (1, 2, 3)
"""The first three, taken as they come; none was chosen for its outcome."""

BYTES_PER_SECOND = 9e6
LIVE_TOPICS, ARCHIVE_TOPICS, ARCHIVE_PARTITIONS = 13, 4, 2
TOPIC_SPREAD, PARTITION_SPREAD, ARCHIVE_SPREAD = 1.2, 1.0, 1.2
"""Standard deviations of the logarithms, chosen so that the median draw comes near the paper's first row."""
LARGEST = 0.55
"""No partition is led at more than this share of a broker's mean bytes in, nor of its mean bytes out, or no
placement could level it."""
READERS, READERS_CHANCE = (0, 1, 2), (0.2, 0.6, 0.2)
RETENTION_BYTES = (4_000_000, 6_000_000, 8_000_000, 12_000_000)
ARCHIVE_BYTES, LARGEST_ARCHIVE = 45e6, 140e6


def draw_workload(seed: int) -> KafkaWorkload:
    """Topics with log-normal rates, readers and archives.

    Broker-side gzip makes a leader cost more CPU than a follower; readers of some topics only make bytes
    out differ from bytes in; archives that nobody writes make disk differ from both. Live topics begin at
    the size that retention keeps them at: disk stays flat while strategies are measured one by one.
    """
    chance = np.random.default_rng(seed)
    sizes = chance.integers(1, 7, LIVE_TOPICS)
    rates = [
        np.exp(TOPIC_SPREAD * chance.normal()) * np.exp(PARTITION_SPREAD * chance.normal(size=size))
        for size in sizes
    ]
    readers = chance.choice(READERS, p=READERS_CHANCE, size=LIVE_TOPICS)
    retention = chance.choice(RETENTION_BYTES, size=LIVE_TOPICS)
    archives = ARCHIVE_BYTES * np.exp(
        ARCHIVE_SPREAD * chance.normal(size=(ARCHIVE_TOPICS, ARCHIVE_PARTITIONS))
    )
    flat = (
        _capped(np.concatenate(rates), np.repeat(readers, sizes), LARGEST / len(BROKERS)) * BYTES_PER_SECOND
    )
    live = [
        KafkaTopicLoad(
            f"live-{index:02d}",
            tuple(round(float(rate), 1) for rate in part),
            consumers=int(readers[index]),
            preload_bytes=(int(retention[index]),) * len(part),
            configs={
                "compression.type": "gzip",
                "segment.bytes": str(SEGMENT_BYTES),
                "retention.bytes": str(retention[index]),
            },
        )
        for index, part in enumerate(np.split(flat, np.cumsum(sizes)[:-1]))
    ]
    kept = [
        KafkaTopicLoad(
            f"archive-{index}",
            (0.0,) * ARCHIVE_PARTITIONS,
            preload_bytes=tuple(int(size) for size in np.minimum(part, LARGEST_ARCHIVE)),
        )
        for index, part in enumerate(archives)
    ]
    return KafkaWorkload((*live, *kept), seed=seed)


def _capped(weights: np.ndarray, readers: np.ndarray, highest: float) -> np.ndarray:
    """Weights that sum to 1, none above `highest`, nor above that share of the sum once each is read."""
    share = weights / weights.sum()
    for _ in range(1000):
        read = share * readers / (share * readers).sum()
        allowed = share * np.minimum(1.0, highest / np.maximum(np.maximum(share, read), highest))
        if np.allclose(allowed, share, rtol=1e-9, atol=0.0):
            break
        share = allowed / allowed.sum()
    return np.asarray(share)


def controllers_draw(workload: KafkaWorkload) -> SandboxPlacement:
    """What a running cluster's own controller makes of the topics, empty and not written to."""
    empty = replace(workload, topics=tuple(replace(topic, preload_bytes=()) for topic in workload.topics))
    with KafkaSandbox.start(len(BROKERS)) as sandbox:
        create_topics(sandbox.connection, empty)
        admin = admin_client(sandbox.connection)
        try:
            return record_placement(admin, [topic.name for topic in workload.topics])
        finally:
            admin.close()


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--controller", action="store_true", help="record a draw of Kafka's own controller")
    given = parser.parse_args()
    draws = FOLDER / "draws"
    draws.mkdir(exist_ok=True)
    if given.controller:
        placement = controllers_draw(read_workload(FOLDER / "workload.json"))
        (draws / "controller-1.json").write_text(placement.to_json() + "\n", encoding="utf-8")
        return
    workload = draw_workload(WORKLOAD_SEED)
    (FOLDER / "workload.json").write_text(workload.to_json() + "\n", encoding="utf-8")
    for seed in PLACEMENT_SEEDS:
        placement = draw_placement(workload.topics, BROKERS, "kafka-2", seed)
        (draws / f"kafka-2-{seed}.json").write_text(placement.to_json() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
