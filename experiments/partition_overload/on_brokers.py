"""The same comparison on a real Kafka cluster: three brokers, three producers, three members of a group.

    python experiments/partition_overload/on_brokers.py                       # the table, into brokers.json
    python experiments/partition_overload/on_brokers.py --policies hash,PKG --exponents 1.2 --producers 2000

Each run has a topic of its own, processes of its own, and first a quarter of its load for a while; then the
load steps up. What is in brokers.json already is not run again: remove it to begin anew.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shutil import which
from typing import Any

import confluent_kafka
import numpy as np
from commands import Failed, brokers_by_commands, table_by_commands
from control import (
    BROKERS,
    GROUP,
    MEMBERS,
    PRODUCERS,
    QUARTER,
    SLOWER,
    TABLES,
    VALUE,
    Task,
    heard,
    say,
    wait_for,
)
from kafka import KafkaAdminClient, TopicPartition
from kafka.admin import OffsetSpec
from measured import figures
from senders import POLICIES
from streams import PARTITIONS

from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.processes import SandboxProcess, end, running, spawn
from trimtab_common.files import write_atomically

FOLDER = Path(__file__).parent
GUARDED = "tables and order guard"
NAMES = (GUARDED, *POLICIES)
FIRST = (GUARDED, "D-Choices", "hash")
WARM_SECONDS, LEARN_SECONDS, SETTLE_SECONDS = 10.0, 60.0, 2.0
LEARN_SECONDS_MOST = 200.0
"""More would come near the end of what is drawn of the quarter, while the commands run."""
MEASURES = "recovered, overloaded"
"""What rows of before have not: they are run anew if they are asked for."""
DRAIN_SECONDS = 300.0
WORKED_OFF_SECONDS = 120.0

MEANWHILE = {
    GUARDED: table_by_commands,
    "BL": brokers_by_commands,
    "paper: BL": brokers_by_commands,
}
"""What is typed while a quarter of the load comes in."""


def assign_by_load(task: Task, admin: Any) -> None:
    """Partitions to consumers by what has come in so far: the largest first, each to whoever has least."""
    names = {TopicPartition(task.topic, one): OffsetSpec.LATEST for one in range(PARTITIONS)}
    found = {name.partition: one.offset for name, one in admin.list_partition_offsets(names).items()}
    own = json.dumps(by_load(found, MEMBERS)).encode()
    write_atomically(Path(task.folder) / "assignment.json", own)
    say(task.folder, "assignment")
    for one in range(MEMBERS):
        wait_for(task.folder, f"left-{one}", 60)


def work_off(task: Task, admin: Any) -> dict[str, Any]:
    """Wait until no more lies there than comes in a second: what had piled up before the table is done."""
    begun, few = time.monotonic(), task.per_second / QUARTER
    names = {TopicPartition(task.topic, one): OffsetSpec.LATEST for one in range(PARTITIONS)}
    while (waited := time.monotonic() - begun) < WORKED_OFF_SECONDS:
        ends = admin.list_partition_offsets(names)
        told = {name: one.offset for name, one in admin.list_group_offsets([GROUP])[GROUP].items()}
        if sum(one.offset - max(0, told.get(name, 0)) for name, one in ends.items()) <= few:
            break
        time.sleep(0.5)
    return {"worked_off_seconds": round(waited, 1)}


def by_load(records: Mapping[int, int], members: int) -> list[list[int]]:
    """Shape (members,): the partitions of each."""
    own: list[list[int]] = [[] for _ in range(members)]
    for place in sorted(records, key=lambda one: -records[one]):
        min(own, key=lambda its: sum(records[one] for one in its)).append(place)
    return own


def places(task: Task, partitions: int) -> np.ndarray:
    """The partition in which each measured record lies, read from the topic; -1: in none."""
    found = np.full(len(task.stream().at), -1)
    reader = confluent_kafka.Consumer(
        {"bootstrap.servers": task.bootstrap, "group.id": "places", "enable.partition.eof": True}
    )
    reader.assign([confluent_kafka.TopicPartition(task.topic, one, 0) for one in range(partitions)])
    ends = 0
    while ends < partitions:
        for message in reader.consume(10_000, 0.2):
            if message.error() is not None:
                ends += 1
            elif (number := VALUE.unpack_from(message.value())[0]) >= 0:
                found[number] = message.partition()
    reader.close()
    return found


def started(task: Task, program: str, name: str) -> SandboxProcess:
    """A process of a run."""
    command = [
        which("env") or "", f"PYTHONPATH={os.pathsep.join(sys.path)}",
        sys.executable, str(FOLDER / program), task.text(),
    ]  # fmt: skip
    return spawn(command, Path(task.folder), Path(task.folder) / f"{name}.log", outlive=False)


def run(
    task: Task, sandbox: KafkaSandbox, admin: Any, learn_seconds: float, drain_seconds: float
) -> dict[str, Any]:
    """One run; a table is made of what comes in for `learn_seconds`.

    It is over when the last record took effect, or `drain_seconds` after the last was sent.
    """
    admin.create_topics(
        {task.topic: {"num_partitions": PARTITIONS, "replication_factor": 1}}, wait_for_metadata=True
    )
    processes = [started(task, "takers.py", "takers")]
    try:
        wait_for(task.folder, "ready-consumers", 120)
        processes += [
            started(replace(task, one=one), "senders.py", f"sender-{one}") for one in range(PRODUCERS)
        ]
        for one in range(PRODUCERS):
            wait_for(task.folder, f"ready-{one}", 120)
        time.sleep(learn_seconds if task.guarded else WARM_SECONDS)
        told = MEANWHILE[task.policy](task) if task.policy in MEANWHILE else {}
        if task.guarded:
            told |= work_off(task, admin)
        if task.by_load:
            assign_by_load(task, admin)
        begin = time.monotonic() + SETTLE_SECONDS
        say(task.folder, "begin", begin)
        time.sleep(SETTLE_SECONDS)
        busy, load = sandbox.cpu_seconds(), [os.getloadavg()[0]]
        time.sleep(task.seconds)
        used, load = sandbox.cpu_seconds(), [*load, os.getloadavg()[0]]
        unsent = sum(wait_for(task.folder, f"sent-{one}", 180) for one in range(PRODUCERS))
        stream = task.stream()
        asked_for = sum(wait_for(task.folder, f"asked-{one}", 1) for one in range(PRODUCERS))
        until = time.monotonic() + drain_seconds
        while not (drained := (heard(task.folder, "done") or 0) >= len(stream.at)):
            if time.monotonic() >= until:
                break
            if not running(processes[0]):
                raise Failed((Path(task.folder) / "takers.log").read_text()[-3000:])
            time.sleep(0.25)
        over = time.monotonic()
        say(task.folder, "stop")
        if wait_for(task.folder, "ended", 120):
            raise Failed((Path(task.folder) / "takers.log").read_text()[-3000:])
    finally:
        end(processes, 20)
    described = admin.describe_topics([task.topic])[0]["partitions"]
    leader = {one["partition_index"]: one["leader_id"] for one in described}
    effects = np.load(Path(task.folder) / "effects.npy")
    leaders = [leader[one] for one in range(len(leader))]
    left = None if drained else places(task, len(leaders))
    found = figures(stream, effects, begin, over, leaders, left)
    shares = [(used[one] - busy[one]) / task.seconds for one in busy]
    return found | told | {
        "unsent": int(unsent),
        "asked_for": int(asked_for),
        "broker_processors": [round(one, 3) for one in shares],
        "load_average": [round(one, 1) for one in load],
    }  # fmt: skip


def main() -> int:
    """Run from the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--policies", default=",".join(FIRST), help=f"of {', '.join(NAMES)}")
    parser.add_argument("--exponents", default="1.0,1.2", help="of Zipf's law")
    parser.add_argument("--producers", default="5000", help="C: each sends a record in four seconds")
    parser.add_argument("--seconds", type=float, default=60.0, help="that records are sent for")
    parser.add_argument(
        "--learn",
        type=float,
        default=LEARN_SECONDS,
        help=f"seconds of a quarter of the load that a table is made of, at most {LEARN_SECONDS_MOST:g}",
    )
    parser.add_argument(
        "--drain",
        type=float,
        default=DRAIN_SECONDS,
        help="seconds after the last record was sent at which a run ends, whatever still waits",
    )
    parser.add_argument("--seed", type=int, default=1, help="of arrivals, names of keys, stalls")
    parser.add_argument("--out", type=Path, default=FOLDER / "brokers.json", help="where results are kept")
    parser.add_argument("--keep", type=Path, help="a folder in which what processes wrote stays")
    given = parser.parse_args()
    if not 0 < given.learn <= LEARN_SECONDS_MOST:
        parser.error(
            f"--learn is {given.learn:g}, and more than 0, at most {LEARN_SECONDS_MOST:g} is asked for"
        )
    document = {"format": "trimtab/experiment/1", "experiment": "partition_overload on brokers", "rows": []}
    if given.out.exists():
        document = json.loads(given.out.read_text())
    rows: list[dict[str, Any]] = document["rows"]
    learnt = {
        "learnt_seconds": given.learn, "rates": "timestamps", "worked_off": True, "fences": "passed",
        "runs": "in turn", "bound": "3.9 σ",
    }  # fmt: skip
    asked = [
        {"row": name.strip(), "load": load, "producers": int(rate), "seconds": given.seconds,
         "seed": given.seed, "measures": MEASURES, **(learnt if name == GUARDED else {}),
         **({"step_6": True} if "IPOOA" in name else {})}
        for rate in given.producers.split(",")
        for load in given.exponents.split(",")
        for name in _names(given.policies)
    ]  # fmt: skip
    missing = [one for one in asked if not any(one.items() <= row.items() for row in rows)]
    with KafkaSandbox.start(BROKERS, prometheus=False) as sandbox:
        bootstrap = sandbox.connection.bootstrap[0]
        admin: Any = KafkaAdminClient(bootstrap_servers=bootstrap)
        tables = {"num_partitions": 1, "replication_factor": 1, "configs": {"cleanup.policy": "compact"}}
        admin.create_topics({TABLES: tables}, wait_for_metadata=True)
        for number, one in enumerate(missing):
            print(f"  {one}", flush=True)
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary) if given.keep is None else given.keep / f"{number}"
                folder.mkdir(parents=True, exist_ok=True)
                task = Task(
                    f"keyed-{number}", bootstrap, str(folder), one["row"], float(one["load"]),
                    one["producers"], one["seconds"], one["seed"],
                )  # fmt: skip
                found = run(task, sandbox, admin, given.learn, given.drain)
            admin.delete_topics([task.topic])
            print(f"    {found}", flush=True)
            rows.append(one | found)
            document["method"] = {
                "partitions": PARTITIONS,
                "brokers": BROKERS,
                "slower": SLOWER,
                "before": 1 / QUARTER,
            }
            write_atomically(given.out, (json.dumps(document, ensure_ascii=False) + "\n").encode())
        admin.close()
    return 0


def _names(policies: str) -> list[str]:
    """Names of policies, of which some have commas themselves."""
    known = sorted(NAMES, key=len, reverse=True)
    found, left = [], policies
    while left:
        name = next((one for one in known if left.startswith(one)), None)
        if name is None or left[len(name) : len(name) + 1] not in ("", ","):
            raise SystemExit(f"--policies: {left!r} begins with none of {', '.join(known)}")
        found.append(name)
        left = left[len(name) + 1 :]
    return found


if __name__ == "__main__":
    sys.exit(main())
