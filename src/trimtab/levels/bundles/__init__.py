"""The level `bundles`: bundles of Pulsar's topics over brokers."""

from __future__ import annotations

from trimtab.levels.level import Level, Part
from trimtab.levels.systems import PULSAR

LEVEL = Level(
    name="bundles",
    title="Pulsar's topic bundles over brokers",
    system=PULSAR,
    moves="a bundle of topics (assign, split, shed)",
    across="broker to broker",
    trigger="a tick, a lookup",
    settings=Part("trimtab.files.bundles.settings:SECTION"),
    snapshot=Part("trimtab.files.bundles.snapshot:FORMAT"),
    plan=Part("trimtab.files.bundles.plan:FORMAT"),
    pipeline=Part("trimtab.observe.bundles.pipeline:PIPELINE"),
    glance=Part("trimtab.observe.collect.pulsar.glance:look"),
    findings=Part("trimtab.plan.bundles.verdicts:findings"),
    planners={"trim": Part("trimtab.plan.bundles.trim:plan_bundles")},
    planning=Part("trimtab.levels.bundles.planning:planned"),
    plan_options=Part("trimtab.levels.bundles.options:PLAN"),
    strategy_help="trim, one of Pulsar's shedders by its name there, or all, side by side.",
    set_help="A setting, like bundles.epsilon=0.05, or an option of Pulsar's, like "
    "loadBalancerBrokerThresholdShedderPercentage=5; may be given again.",
    acting=Part("trimtab.act.bundles.acting:ACTING"),
    open=Part("trimtab.act.pulsar.port:open_port"),
    words=Part("trimtab.report.bundles.words:WORDS"),
    pace="a plan of bundles copies nothing, and execution.bundles.sessions_per_minute limits how many "
    "clients are disturbed",
    figures=Part("trimtab.levels.bundles.replaying:figures"),
    replay=Part("trimtab.levels.bundles.replaying:replayed"),
    replay_help="One decision a tick. Several strategies in the simulated world, or one with --json, --chart "
    "or --pause: what each did to the cluster is shown side by side, and the decisions go to --out alone, "
    "where each line names its strategy.",
    replay_options=Part("trimtab.levels.bundles.options:REPLAY"),
)
