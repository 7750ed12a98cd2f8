"""The level `replicas`: leaders and replicas of Kafka's partitions over brokers."""

from __future__ import annotations

from trimtab.levels.level import Level, Option, Part
from trimtab.levels.systems import KAFKA

LEVEL = Level(
    name="replicas",
    title="Kafka's partition leaders and replicas over brokers",
    system=KAFKA,
    moves="a partition's leader role, or a replica",
    across="broker to broker",
    trigger="a tick",
    settings=Part("trimtab.files.replicas.settings:SECTION"),
    snapshot=Part("trimtab.files.replicas.snapshot:FORMAT"),
    plan=Part("trimtab.files.replicas.plan:FORMAT"),
    forms={"kafka": Part("trimtab.files.replicas.plan:kafka_form")},
    pipeline=Part("trimtab.observe.replicas.pipeline:PIPELINE"),
    glance=Part("trimtab.observe.collect.kafka.glance:look"),
    planners={
        "trim": Part("trimtab.plan.replicas.trim:plan"),
        "role_aware": Part("trimtab.plan.replicas.role_aware:plan"),
    },
    strategy_help="trim or role_aware (replicas.strategy).",
    set_help="A setting, like replicas.epsilon=0.05; may be given again.",
    plan_options=Part("trimtab.levels.replicas.options:PLAN"),
    acting=Part("trimtab.act.replicas.acting:ACTING"),
    open=Part("trimtab.act.kafka.port:open_port"),
    words=Part("trimtab.report.replicas.words:WORDS"),
    replay=Part("trimtab.levels.replicas.replaying:replayed"),
    replay_options=Part("trimtab.levels.replicas.options:REPLAY"),
    replay_help="Plan anew every so often, as loads come, and compare: nothing moved is the first row. "
    "Moves take the time that their bytes need.",
    pace="execution.throttle limits how fast it copies",
    apply_options=(
        Option(
            "--throttle",
            "auto, none, or bytes per second and broker (execution.throttle).",
            setting="execution.throttle",
        ),
    ),
)
