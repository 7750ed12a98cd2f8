"""Leadership handovers and replica copies timed apart, one at a time, under the recorded load.

`python experiments/replica_roles/timings.py` hands over leader roles and copies replicas of the recorded
default placement one after the other, and writes `timings.json`: how long the cluster took for each, how many
bytes it copied, and how long the producer of that partition stood still meanwhile.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))

from cluster import loaded_cluster, say
from run import machine

from demos.interruptions import interruptions
from demos.run import DemoInterrupted, orderly
from demos.sampling import SampledSandbox as World
from trimtab.act.replicas.port import ClusterObservation, TopicPartition
from trimtab.lab.sandbox.kafka.placement import read_placement
from trimtab.lab.sandbox.kafka.workload import KafkaWorkload, read_workload
from trimtab.systems.kafka.client import admin_client
from trimtab.systems.kafka.port import KafkaAdminPort
from trimtab_common.files import write_atomically

FOLDER = Path(__file__).parent
DRAW, SEED = "kafka-2-1", 11
WARM_UP_SECONDS, APART_SECONDS, PATIENCE_SECONDS = 20.0, 2.0, 60.0
LOOK_SECONDS = 0.005
"""Between two looks at the cluster: the figures are no finer than a look takes."""


class Timing:
    """Changes to one partition at a time, each watched until the whole cluster shows it."""

    def __init__(self, world: World, port: KafkaAdminPort) -> None:
        self._port = port
        self._brokers = [node.id for node in world.sandbox.brokers]

    def look(self, partition: TopicPartition, *, sizes: bool = False) -> ClusterObservation:
        """The partition now."""
        return self._port.observe([partition], self._brokers if sizes else [], wide=False)

    def hand_over(self, partition: TopicPartition) -> dict[str, Any]:
        """Another replica leads: a new order of the list, and an election."""
        before = self.look(partition).placements[partition]
        order = (*before.replicas[1:], before.replicas[0])
        begun = time.time()
        self._accepted(self._port.reassign({partition: order})[partition])
        ordered = time.time()
        self._accepted(self._port.elect_preferred([partition])[partition])
        elected = time.time()
        self._wait(lambda: self.look(partition).placements[partition].leader == order[0])
        return {
            "order_seconds": ordered - begun,
            "election_seconds": elected - ordered,
            "shown_seconds": time.time() - begun,
            "begun": begun,
            "ended": time.time(),
        }

    def copy(self, partition: TopicPartition, chance: random.Random) -> dict[str, Any]:
        """A follower's replica is copied to a broker that holds none."""
        seen = self.look(partition, sizes=True)
        replicas = seen.placements[partition].replicas
        size = max(copy.size_bytes for found in seen.copies.values() for copy in found)
        target = chance.choice([one for one in self._brokers if one not in replicas])
        begun = time.time()
        self._accepted(self._port.reassign({partition: (*replicas[:-1], target)})[partition])
        self._wait(lambda: partition not in self.look(partition).reassignments)
        return {"bytes": size, "shown_seconds": time.time() - begun, "begun": begun, "ended": time.time()}

    def _accepted(self, failure: object) -> None:
        if failure is not None:
            raise SystemExit(f"the cluster refuses: {failure}")

    def _wait(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not done():
            if time.monotonic() > deadline:
                raise SystemExit(f"not done after {PATIENCE_SECONDS:g} s")
            time.sleep(LOOK_SECONDS)


def chosen(workload: KafkaWorkload, each: int) -> list[TopicPartition]:
    """Partitions that are written to, the busiest and some others, in an order drawn from the seed."""
    rates = {
        TopicPartition(topic.name, number): rate
        for topic in workload.topics
        for number, rate in enumerate(topic.bytes_per_second)
        if rate > 0
    }
    busiest = sorted(rates, key=lambda one: -rates[one])[: each // 3]
    others = [one for one in sorted(rates) if one not in busiest]
    drawn = random.Random(SEED).sample(others, each - len(busiest))
    return [*busiest, *drawn]


def measure(each: int) -> dict[str, Any]:
    """Calm, handovers, copies of live partitions, copies of archives."""
    workload = read_workload(FOLDER / "workload.json")
    archives = [
        TopicPartition(topic.name, number)
        for topic in workload.topics
        if not any(topic.bytes_per_second)
        for number in range(topic.partitions)
    ]
    live, chance = chosen(workload, each), random.Random(SEED)
    with loaded_cluster(workload, read_placement(FOLDER / "draws" / f"{DRAW}.json")) as world:
        time.sleep(WARM_UP_SECONDS)
        admin = admin_client(world.sandbox.connection)
        try:
            timing = Timing(world, KafkaAdminPort(admin, time.time))
            calm = [{"partition": one, **_nothing()} for one in live]
            say(f"{len(live)} handovers")
            handovers = [_apart(one, timing.hand_over) for one in live]
            say(f"{len(live) + len(archives)} copies")
            copies = [_apart(one, lambda which: timing.copy(which, chance)) for one in [*live, *archives]]
        finally:
            admin.close()
        time.sleep(APART_SECONDS)
        world.load.require_running()
        ticks = list(world.load.ticks())
    for done in (*calm, *handovers, *copies):
        topic, number = done["partition"]
        found = interruptions(ticks, [f"{topic}:{number}"], done.pop("begun"), done.pop("ended"))
        pause = max((one.seconds for one in found if one.client == "producer"), default=None)
        done |= {"partition": f"{topic}-{number}", "producer_pause_seconds": pause}
    errors = sum(tick.errors for tick in ticks)
    return {"calm": calm, "handovers": handovers, "copies": copies, "failed_records": errors}


def _nothing() -> dict[str, Any]:
    """A second in which nothing is changed, to hold pauses against."""
    begun = time.time()
    time.sleep(1.0)
    return {"begun": begun, "ended": time.time()}


def _apart(partition: TopicPartition, change: Callable[[TopicPartition], dict[str, Any]]) -> dict[str, Any]:
    time.sleep(APART_SECONDS)
    return {"partition": partition, **change(partition)}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, ninth decile and maximum."""
    ordered = sorted(values)
    return {
        "median": statistics.median(ordered),
        "p90": ordered[min(len(ordered) - 1, int(0.9 * len(ordered)))],
        "max": ordered[-1],
    }


def print_timings(found: dict[str, Any]) -> None:
    """A line for each kind of change."""

    def line(what: str, values: Sequence[float]) -> None:
        one = spread(values)
        print(
            f"{what:46} {len(values):3}  {1000 * one['median']:8.0f} {1000 * one['p90']:8.0f} "
            f"{1000 * one['max']:8.0f}"
        )

    print(f"{'milliseconds':46}   n    median      p90      max")
    handovers, copies = found["handovers"], found["copies"]
    line("handover: new order answered", [one["order_seconds"] for one in handovers])
    line("handover: election answered", [one["election_seconds"] for one in handovers])
    line("handover: whole, until brokers show it", [one["shown_seconds"] for one in handovers])
    line("copy: whole, until brokers show it", [one["shown_seconds"] for one in copies])
    for what, done in (("calm second", found["calm"]), ("handover", handovers), ("copy", copies)):
        pauses = [one["producer_pause_seconds"] for one in done if one["producer_pause_seconds"] is not None]
        line(f"producer's longest pause: {what}", pauses)
    megabytes = [one["bytes"] / 1e6 for one in copies]
    print(
        f"copies: {min(megabytes):.0f} to {max(megabytes):.0f} MB; failed records: {found['failed_records']}"
    )


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--each", type=int, default=24, help="live partitions that are changed")
    parser.add_argument("--out", type=Path, default=FOLDER, help="where timings.json goes")
    given = parser.parse_args()
    try:
        with orderly():
            found = measure(given.each)
    except DemoInterrupted as interrupted:
        return interrupted.exit_code
    document = {
        "format": "trimtab/experiment/1",
        "experiment": "replica_roles timings",
        "method": {"draw": DRAW, "seed": SEED, "each": given.each, "apart_seconds": APART_SECONDS},
        "machine": machine(),
        **found,
    }
    given.out.mkdir(parents=True, exist_ok=True)
    write_atomically(
        given.out / "timings.json", (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()
    )
    print_timings(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
