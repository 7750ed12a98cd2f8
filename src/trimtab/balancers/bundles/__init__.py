"""The balancer `bundles`: bundles of Pulsar's topics over brokers."""

from __future__ import annotations

from trimtab.balancers.balancer import Balancer, LazyImport
from trimtab.balancers.systems import PULSAR

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
    plan_options=LazyImport("trimtab.balancers.bundles.options:PLAN"),
    strategy_help="trim, a Pulsar shedder by its name, or all, for comparison.",
    set_help="Setting, like bundles.epsilon=0.05, or Pulsar option, like "
    "loadBalancerBrokerThresholdShedderPercentage=5; repeatable.",
    executor=LazyImport("trimtab.act.bundles.executor:EXECUTOR"),
    open=LazyImport("trimtab.systems.pulsar.port:open_port"),
    renderer=LazyImport("trimtab.report.bundles.renderer:RENDERER"),
    impact="a plan of bundles copies nothing, and execution.bundles.max_sessions_per_minute limits how many "
    "clients are disturbed",
    figures=LazyImport("trimtab.balancers.bundles.replay:figures"),
    replay=LazyImport("trimtab.balancers.bundles.replay:replayed"),
    replay_help="Prints one decision per tick. Several strategies in mode simulated, or one with --json, "
    "--chart or --pause, are compared by their figures; the decisions then go to --out only, and "
    "each line names its strategy.",
    replay_options=LazyImport("trimtab.balancers.bundles.options:REPLAY"),
)
