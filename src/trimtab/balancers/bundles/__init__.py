"""The balancer `bundles`: bundles of Pulsar's topics over brokers."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Final

from trimtab.balancers.balancer import Balancer, LazyImport, Option
from trimtab.balancers.systems import PULSAR, SPARK_MASTER


class UnloadOutcomes(StrEnum):
    """The source of the loads after an unload."""

    RECORDED = "recorded"
    SIMULATED = "simulated"


class TieOrder(StrEnum):
    """The order of equal brokers or bundles."""

    JAVA = "java"
    FILE = "file"


PLAN_OPTIONS: Final = (
    Option("--reports", "Recorded load reports instead of a snapshot: a file or a folder.", Path | None),
    Option("--placement", "Pulsar placement strategy, for shedders that select no destination."),
    Option("--policies", "Policies of the cluster (trimtab/pulsar-policies/1), for --reports.", Path | None),
    Option(
        "--pulsar-version",
        "Rules of Pulsar's strategies: pulsar-4.2, pulsar-4.0 or article.",
        str,
        "pulsar-4.2",
    ),
    Option("--ticks", "Number of newest ticks of --reports that strategies receive.", int, 60, minimum=1),
)

REPLAY_OPTIONS: Final = (
    Option(
        "--reports",
        "Recorded load reports (trimtab/pulsar-reports/1), plain or gzip, or a folder of them.",
        Path | None,
    ),
    Option("--lake", "Lake to read the reports from, instead of --reports.", Path | None),
    Option("--cluster", "Cluster, if the lake holds several."),
    Option("--since", "First tick, like 2026-11-21T05:00 (UTC)."),
    Option("--until", "End of the ticks, exclusive."),
    Option(
        "--strategy",
        "Shedding strategy by its name in Pulsar, or NAME=STRATEGY; repeatable. Default: ThresholdShedder.",
        list[str],
        [],
    ),
    Option(
        "--placement",
        "Placement strategy, for shedders that select no destination; NAME=PLACEMENT applies to one "
        "strategy. Default in mode simulated: Pulsar's own.",
        list[str],
        [],
    ),
    Option("--scenarios", "TOML file of strategies with their settings.", Path | None),
    Option(
        "--set",
        "Pulsar option: loadBalancerX=value for all strategies or NAME.loadBalancerX=value for one; "
        "repeatable.",
        list[str],
        [],
    ),
    Option(
        "--policies",
        "JSON file of isolation policies, failure domains, anti-affinity groups and resource quotas "
        "(trimtab/pulsar-policies/1); default: none.",
        Path | None,
    ),
    Option(
        "--pulsar-version",
        "Rules and defaults: pulsar-4.2 (default), pulsar-4.0 or article.",
        str | None,
    ),
    Option("--seed", "Seed of random choices; default: 0.", int | None, minimum=0),
    Option(
        "--mode",
        "recorded: each tick as in the file; simulated: load follows its bundle.",
        UnloadOutcomes,
        UnloadOutcomes.RECORDED,
    ),
    Option(
        "--tie-order",
        "Order of equal brokers or bundles: that of Java's hash maps (as in Pulsar), or of the file.",
        TieOrder,
        TieOrder.JAVA,
    ),
    Option(
        "--out",
        "File for the decisions, one line per tick; default: standard output. With --spark: a new "
        "folder, one file per strategy.",
        Path | None,
    ),
    Option(
        "--state-file",
        "File of the state: read at the start if it exists, written at the end.",
        Path | None,
    ),
    Option("--json", "Print the figures of each strategy as one JSON document.", bool, False),
    Option("--chart", "Draw imbalance over time to this file, as .svg and .png.", Path | None),
    Option(
        "--pause",
        "Seconds for which an unload interrupts its bundle; default: the measured time.",
        float | None,
        minimum=0,
    ),
    Option(
        "--settings",
        "Settings file, for section [spark]; default: $TRIMTAB_SETTINGS, else ./trimtab.toml.",
        Path | None,
    ),
    Option("--spark", "Run as a Spark job, one task per strategy: for long recordings.", bool, False),
    SPARK_MASTER,
)

BALANCER = Balancer(
    name="bundles",
    title="Pulsar's topic bundles over brokers",
    system=PULSAR,
    moves="a bundle of topics (assign, split, shed)",
    across="broker to broker",
    trigger="a tick, a lookup",
    settings=LazyImport("trimtab.files.bundles.settings:SECTION"),
    snapshot=LazyImport("trimtab.files.bundles.snapshot:FORMAT"),
    plan=LazyImport("trimtab.files.bundles.plan:FORMAT"),
    pipeline=LazyImport("trimtab.observe.bundles.pipeline:PIPELINE"),
    live_status=LazyImport("trimtab.systems.pulsar.status:read_status"),
    findings=LazyImport("trimtab.plan.bundles.verdicts:findings"),
    planners={"trim": LazyImport("trimtab.plan.bundles.trim:plan_bundles")},
    make_plan=LazyImport("trimtab.balancers.bundles.planning:planned"),
    plan_options=PLAN_OPTIONS,
    strategy_help="trim, a Pulsar shedder by its name, or all, for comparison.",
    set_help="Setting, like bundles.epsilon=0.05, or Pulsar option, like "
    "loadBalancerBrokerThresholdShedderPercentage=5; repeatable.",
    executor=LazyImport("trimtab.act.bundles.executor:EXECUTOR"),
    open=LazyImport("trimtab.systems.pulsar.port:open_port"),
    undo=LazyImport("trimtab.plan.bundles.undo:undo"),
    warm_up=LazyImport("trimtab.plan.bundles.trim:warm_up"),
    observed=LazyImport("trimtab.decide.loads:observed_of"),
    renderer=LazyImport("trimtab.report.bundles.renderer"),
    impact="a plan of bundles copies nothing, and execution.bundles.max_sessions_per_minute limits how many "
    "clients are disturbed",
    figures=LazyImport("trimtab.balancers.bundles.replay:figures"),
    replay=LazyImport("trimtab.balancers.bundles.replay:replayed"),
    replay_help="Prints one decision per tick. Several strategies in mode simulated, or one with --json, "
    "--chart or --pause, are compared by their figures; the decisions then go to --out only, and "
    "each line names its strategy.",
    replay_options=REPLAY_OPTIONS,
)
