"""The level `keys`: record keys over the partitions of a topic, by routing tables."""

from __future__ import annotations

from trimtab.levels.level import Level, Option, Part
from trimtab.levels.systems import KAFKA

LEVEL = Level(
    name="keys",
    title="record keys over partitions",
    system=KAFKA,
    carrier="partition",
    moves="a key group, or a hot key's records (sent by producers, by a table that is published)",
    across="partition to partition",
    trigger="a record, a reading of the topic",
    settings=Part("trimtab.files.keys.settings:SECTION"),
    snapshot=Part("trimtab.files.keys.snapshot:FORMAT"),
    plan=Part("trimtab.files.keys.plan:FORMAT"),
    pipeline=Part("trimtab.observe.keys.pipeline:PIPELINE"),
    reads=Option("--keys", "A topic whose records are read, and how level its keys are over its partitions."),
    reading=Part("trimtab.observe.keys.reading:open_reading"),
    planners={"trim": Part("trimtab.plan.keys.trim:plan_keys")},
    strategy_help="trim.",
    set_help="A setting, like keys.epsilon=0.05; may be given again.",
    acting=Part("trimtab.act.keys.acting:ACTING"),
    open=Part("trimtab.act.kafka.tables:open_port"),
    back=Part("trimtab.model.keys.plan:taken_back"),
    words=Part("trimtab.report.keys.words:WORDS"),
    replay=Part("trimtab.levels.keys.replaying:replayed"),
    replay_options=Part("trimtab.levels.keys.options:REPLAY"),
    replay_help="In virtual time, every policy on the same records; a consumer for each partition, tables "
    "with the order guard and without.",
    pace="publishing a table interrupts nobody: producers flush, and go on",
)
