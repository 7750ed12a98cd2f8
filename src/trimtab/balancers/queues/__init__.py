"""The balancer `queues`: messages over worker queues, by seconds of work."""

from __future__ import annotations

from trimtab.balancers.balancer import Balancer, LazyImport
from trimtab.balancers.systems import REDIS

BALANCER = Balancer(
    name="queues",
    title="messages over worker queues",
    system=REDIS,
    target_kind="queue",
    remedy="says which weights would help, and what the scheduler does",
    moves="a message (dispatched, moved by the scheduler), by weights that are published",
    across="queue to queue",
    trigger="a message, a second",
    settings=LazyImport("trimtab_queues.format.settings:SECTION"),
    snapshot=LazyImport("trimtab.files.queues.snapshot:FORMAT"),
    plan=LazyImport("trimtab.files.queues.plan:FORMAT"),
    pipeline=LazyImport("trimtab.observe.queues.pipeline:PIPELINE"),
    live_status=LazyImport("trimtab.systems.redis.status:read_status"),
    planners={"trim": LazyImport("trimtab.plan.queues.trim:plan_queues")},
    strategy_help="trim.",
    set_help="Setting, like queues.min_change=0.1; repeatable.",
    executor=LazyImport("trimtab.act.queues.executor:EXECUTOR"),
    open=LazyImport("trimtab.systems.redis.port:open_port"),
    renderer=LazyImport("trimtab.report.queues.renderer:RENDERER"),
    replay=LazyImport("trimtab.balancers.queues.replay:replayed"),
    replay_options=LazyImport("trimtab.balancers.queues.options:REPLAY"),
    replay_help="Runs every policy on the same arrivals in virtual time. A lake holds counts, not single "
    "messages: times within a tick and processing times are random (--seed).",
    programs="List, show and re-queue dead letters.",
    impact="publishing weights interrupts nobody",
)
