"""The level `queues`: messages over worker queues, by seconds of work."""

from __future__ import annotations

from trimtab.levels.level import Level, Part
from trimtab.levels.systems import REDIS

LEVEL = Level(
    name="queues",
    title="messages over worker queues",
    system=REDIS,
    carrier="queue",
    remedy="says which weights would help, and what the scheduler does",
    moves="a message (dispatched, moved by the scheduler), by weights that are published",
    across="queue to queue",
    trigger="a message, a second",
    settings=Part("trimtab.files.queues.settings:SECTION"),
    snapshot=Part("trimtab.files.queues.snapshot:FORMAT"),
    plan=Part("trimtab.files.queues.plan:FORMAT"),
    pipeline=Part("trimtab.observe.queues.pipeline:PIPELINE"),
    glance=Part("trimtab.observe.collect.redis.glance:look"),
    planners={"trim": Part("trimtab.plan.queues.trim:plan_queues")},
    strategy_help="trim.",
    set_help="A setting, like queues.change_least=0.1; may be given again.",
    acting=Part("trimtab.act.queues.acting:ACTING"),
    open=Part("trimtab.act.redis.port:open_port"),
    words=Part("trimtab.report.queues.words:WORDS"),
    replay=Part("trimtab.levels.queues.replaying:replayed"),
    replay_options=Part("trimtab.levels.queues.options:REPLAY"),
    replay_help="In virtual time, every policy on the same arrivals. A lake holds counts, not single "
    "messages: instants within a tick and processing times are drawn, by --seed.",
    programs="List, show and re-queue messages that were given up.",
    pace="publishing weights interrupts nobody",
)
