"""The balancer `replicas`: leaders and replicas of Kafka's partitions over brokers."""

from __future__ import annotations

from trimtab.balancers.balancer import Balancer, LazyImport, Option
from trimtab.balancers.systems import KAFKA

BALANCER = Balancer(
    name="replicas",
    title="Kafka's partition leaders and replicas over brokers",
    system=KAFKA,
    moves="a partition's leader role, or a replica",
    across="broker to broker",
    trigger="a tick",
    settings=LazyImport("trimtab.files.replicas.settings:SECTION"),
    snapshot=LazyImport("trimtab.files.replicas.snapshot:FORMAT"),
    plan=LazyImport("trimtab.files.replicas.plan:FORMAT"),
    formats={"kafka": LazyImport("trimtab.files.replicas.plan:kafka_form")},
    pipeline=LazyImport("trimtab.observe.replicas.pipeline:PIPELINE"),
    live_status=LazyImport("trimtab.systems.kafka.status:read_status"),
    planners={
        "trim": LazyImport("trimtab.plan.replicas.trim:plan"),
        "role_aware": LazyImport("trimtab.plan.replicas.role_aware:plan"),
    },
    strategy_help="trim or role_aware (replicas.strategy).",
    set_help="Setting, like replicas.epsilon=0.05; repeatable.",
    plan_options=LazyImport("trimtab.balancers.replicas.options:PLAN"),
    executor=LazyImport("trimtab.act.replicas.executor:EXECUTOR"),
    open=LazyImport("trimtab.systems.kafka.port:open_port"),
    renderer=LazyImport("trimtab.report.replicas.renderer:RENDERER"),
    replay=LazyImport("trimtab.balancers.replicas.replay:replayed"),
    replay_options=LazyImport("trimtab.balancers.replicas.options:REPLAY"),
    replay_help="Makes plans at regular intervals and compares their figures; the first row has no moves. "
    "Moves take the time that their bytes need.",
    impact="execution.throttle limits how fast it copies",
    apply_options=(
        Option(
            "--throttle",
            "auto, none, or bytes per second and broker (execution.throttle).",
            setting="execution.throttle",
        ),
    ),
)
