"""The balancer `replicas`: leaders and replicas of Kafka's partitions over brokers."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from trimtab.balancers.balancer import Balancer, LazyImport, Option
from trimtab.balancers.systems import KAFKA, SPARK_MASTER


def _brokers(name: str, help: str) -> Option:
    return Option(
        f"--{name}",
        f"{help} (replicas.{name}).",
        list[str],
        [],
        setting=f"replicas.{name}",
    )


PLAN_OPTIONS: Final = (
    _brokers("drain", "Brokers to empty, like 5 or 5,7"),
    _brokers("demote", "Brokers that lead nothing after the plan; they keep their replicas"),
    _brokers("add", "New brokers to fill; replicas that need not move are copied to these brokers only"),
    Option(
        "--fix-offline-replicas",
        "Move only replicas on dead and drained brokers and failed dirs, and give leaderless "
        "partitions a leader.",
        bool,
        False,
        setting="replicas.fix_offline_replicas",
    ),
    Option(
        "--rebalance",
        "Also balance the cluster, with --drain, --demote or --fix-offline-replicas.",
        bool,
        False,
        setting="replicas.rebalance",
    ),
    Option(
        "--intra-broker",
        "Move replicas only between the log dirs of their broker.",
        bool,
        False,
        setting="replicas.intra_broker_only",
    ),
    Option(
        "--replication-factor",
        "TOPIC=3: replication factor of topics, by name or pattern; nothing else moves.",
        list[str],
        [],
        setting="replicas.replication_factor",
        table=True,
    ),
)

REPLAY_OPTIONS: Final = (
    Option("--recording", "Folder of recorded loads (trimtab/replicas-recording/1).", Path | None),
    Option("--lake", "Lake to read the loads from, instead of --recording.", Path | None),
    Option("--cluster", "Cluster, if the lake holds several."),
    Option(
        "--since", "Start of the replay, like 2026-11-21T05:00 (UTC); earlier loads are used for profiles."
    ),
    Option("--until", "End of the replay."),
    Option("--strategy", "trim or role_aware; repeatable. Default: replicas.strategy.", list[str], []),
    Option(
        "--load",
        "recent, peak or forecast, each with every strategy; repeatable. Default: replicas.load.",
        list[str],
        [],
    ),
    Option("--plan-interval", "Minutes between two plans.", float, 60.0),
    Option(
        "--policy",
        "Settings file with the policy of a service, [serve], or `default`; it decides when plans are made. "
        "Repeatable.",
        list[str],
        [],
    ),
    Option("--step", "Minutes over which loads are averaged.", float, 15.0),
    Option("--profile-weeks", "Like pipeline.profile_weeks; 0: no profiles.", int, 4, minimum=0),
    Option("--settings", "Settings file; default: $TRIMTAB_SETTINGS, else ./trimtab.toml.", Path | None),
    Option("--set", "Setting of the plans, like replicas.epsilon=0.05; repeatable.", list[str], []),
    Option("--json", "Print the figures, with those of every step, as one JSON document.", bool, False),
    Option(
        "--chart", "Draw the figures of each strategy over time to this file, as .svg and .png.", Path | None
    ),
    SPARK_MASTER,
)

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
    plan_options=PLAN_OPTIONS,
    executor=LazyImport("trimtab.act.replicas.executor:EXECUTOR"),
    open=LazyImport("trimtab.systems.kafka.port:open_port"),
    undo=LazyImport("trimtab.plan.replicas.undo:undo"),
    warm_up=LazyImport("trimtab.plan.replicas.trim:warm_up"),
    observed=LazyImport("trimtab.decide.replicas:observed_of"),
    present_state=LazyImport("trimtab.systems.kafka.port:present_state"),
    renderer=LazyImport("trimtab.report.replicas.renderer"),
    replay=LazyImport("trimtab.balancers.replicas.replay:replayed"),
    replay_options=REPLAY_OPTIONS,
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
