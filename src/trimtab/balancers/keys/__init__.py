"""The balancer `keys`: record keys over the partitions of a topic, by routing tables."""

from __future__ import annotations

from trimtab.balancers.balancer import Balancer, LazyImport, Option
from trimtab.balancers.systems import KAFKA

BALANCER = Balancer(
    name="keys",
    title="record keys over partitions",
    system=KAFKA,
    target_kind="partition",
    moves="a key group, or a hot key's records (sent by producers, by a table that is published)",
    across="partition to partition",
    trigger="a record, a reading of the topic",
    settings=LazyImport("trimtab.files.keys.settings:SECTION"),
    snapshot=LazyImport("trimtab.files.keys.snapshot:FORMAT"),
    plan=LazyImport("trimtab.files.keys.plan:FORMAT"),
    pipeline=LazyImport("trimtab.observe.keys.pipeline:PIPELINE"),
    direct_source_option=Option(
        "--keys", "Topic whose records are read, to measure the balance of its keys over its partitions."
    ),
    read_directly=LazyImport("trimtab.systems.kafka.offset_sampling:open_reading"),
    planners={"trim": LazyImport("trimtab.plan.keys.trim:plan_keys")},
    strategy_help="trim.",
    set_help="Setting, like keys.epsilon=0.05; repeatable.",
    executor=LazyImport("trimtab.act.keys.executor:EXECUTOR"),
    open=LazyImport("trimtab.systems.kafka.tables:open_port"),
    back=LazyImport("trimtab.model.keys.plan:reverted"),
    renderer=LazyImport("trimtab.report.keys.renderer:RENDERER"),
    replay=LazyImport("trimtab.balancers.keys.replay:replayed"),
    replay_options=LazyImport("trimtab.balancers.keys.options:REPLAY"),
    replay_help="Runs every policy on the same records in virtual time, with one consumer per partition, and "
    "tables with and without the order guard.",
    impact="publishing a table interrupts nobody: producers flush, and go on",
)
