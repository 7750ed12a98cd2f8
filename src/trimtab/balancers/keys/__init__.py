"""The balancer `keys`: record keys over the partitions of a topic, by routing tables."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trimtab.balancers.balancer import Balancer, LazyImport, Option
from trimtab.balancers.systems import KAFKA

REPLAY_OPTIONS: Final = (
    Option(
        "--records",
        "Recorded records of a topic: CSV, JSON Lines or Parquet with columns time, key.",
        Path | None,
    ),
    Option("--since", "Start of the replay, like 2026-11-21T05:00 (UTC)."),
    Option("--until", "End of the replay."),
    Option(
        "--key-distribution",
        "Random records instead of --records: zipf:EXPONENT or zipf:EXPONENT:KEYS.",
    ),
    Option("--rate", "Records per second of --key-distribution.", float, 5000.0, minimum=0.1),
    Option("--seconds", "Duration of --key-distribution.", float, 30.0, minimum=0.1),
    Option(
        "--policy",
        "Key policy: ipooa+load, ipooa+least, key_groups (a table made from the whole recording), "
        "key_groups+guard (with the order guard), key_groups+guard+plans (planned during the "
        "replay); repeatable. Default: all.",
        list[str],
        [],
    ),
    Option("--partitions", "Partitions of the topic, one consumer each.", int, 24, minimum=1),
    Option(
        "--consumer-rate",
        "Capacity of each consumer in records per second; default: all consumers together are used to theta.",
        float | None,
        minimum=0.001,
    ),
    Option("--producers", "Number of producers; all records of a key come from one.", int, 3, minimum=1),
    Option(
        "--plan-interval",
        "Seconds between two plans, for policies that plan during the replay.",
        float,
        5.0,
        minimum=0.1,
    ),
    Option("--seed", "Seed of policies and of --key-distribution.", int, 0, minimum=0),
    Option("--settings", "Settings file; default: $TRIMTAB_SETTINGS, else ./trimtab.toml.", Path | None),
    Option("--set", "Setting of the plans, like keys.epsilon=0.05; repeatable.", list[str], []),
    Option("--json", "Print the figures, with backlogs over time, as one JSON document.", bool, False),
    Option("--chart", "Draw loads and backlogs of partitions to this file, as .svg and .png.", Path | None),
)

BALANCER = Balancer(
    name="keys",
    title="record keys over partitions",
    system=KAFKA,
    target_kind="partition",
    moves="a key group, or a hot key's records (sent by producers, by a table that is published)",
    across="partition to partition",
    trigger="a record, a reading of the topic",
    settings=LazyImport("trimtab.files.keys.settings:SECTION"),
    snapshot=LazyImport("trimtab.files.keys.formats:SNAPSHOT_FORMAT"),
    plan=LazyImport("trimtab.files.keys.formats:PLAN_FORMAT"),
    pipeline=LazyImport("trimtab.observe.keys.pipeline:PIPELINE"),
    direct_source_option=Option(
        "--keys", "Topic whose records are read, to measure the balance of its keys over its partitions."
    ),
    read_directly=LazyImport("trimtab.systems.kafka.offset_sampling:open_reading"),
    planners={"trim": LazyImport("trimtab.plan.keys.trim:plan_keys")},
    strategy_help="trim.",
    set_help="Setting, like keys.epsilon=0.05; repeatable.",
    executor=LazyImport("trimtab.act.keys.executor:EXECUTOR"),
    open=LazyImport("trimtab.systems.kafka.keyed_topic:open_port"),
    back=LazyImport("trimtab.model.keys:reverted"),
    renderer=LazyImport("trimtab.report.keys"),
    replay=LazyImport("trimtab.balancers.keys.replay:replayed"),
    replay_options=REPLAY_OPTIONS,
    replay_help="Runs every policy on the same records in virtual time, with one consumer per partition, and "
    "tables with and without the order guard.",
    impact="publishing a table interrupts nobody: producers flush, and go on",
)
