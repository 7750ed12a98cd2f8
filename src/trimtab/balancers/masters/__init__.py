"""The balancer `masters`: masterships of replicated groups over nodes."""

from __future__ import annotations

from typing import Final

from trimtab.balancers.balancer import Balancer, LazyImport, Option, SystemBinding
from trimtab.balancers.systems import KAFKA, PAXOS

PLAN_OPTIONS: Final = (
    Option(
        "--system",
        "System: paxos (groups of a store), or kafka (partition leaders, by preferred elections, "
        "from the newest snapshot of the cluster).",
    ),
    Option("--drain", "Node to drain; repeatable.", list[str], [], setting="masters.drain"),
    Option(
        "--exclude",
        "Node that receives no further masterships; repeatable.",
        list[str],
        [],
        setting="masters.excluded_nodes",
    ),
    Option(
        "--max-moves",
        "Maximum number of masterships that the plan moves.",
        int | None,
        minimum=1,
        setting="masters.max_moves",
    ),
)

BALANCER = Balancer(
    name="masters",
    title="masterships over nodes",
    system=PAXOS,
    further_systems=(
        SystemBinding(
            KAFKA,
            as_balancer_snapshot=LazyImport("trimtab.systems.kafka.leaders:leaders"),
            open=LazyImport("trimtab.systems.kafka.leaders:open_leaders"),
        ),
    ),
    target_kind="node",
    remedy="finds the transfers that help",
    moves="a mastership (taken over by its preferred node, under load)",
    across="node to node",
    trigger="a node that died, came back or is drained; a tick",
    settings=LazyImport("trimtab.files.masters.settings:SECTION"),
    snapshot=LazyImport("trimtab.files.masters.formats:SNAPSHOT_FORMAT"),
    plan=LazyImport("trimtab.files.masters.formats:PLAN_FORMAT"),
    pipeline=LazyImport("trimtab.observe.masters.pipeline:PIPELINE"),
    live_status=LazyImport("trimtab.systems.paxos.port:read_status"),
    planners={"trim": LazyImport("trimtab.plan.masters.trim:plan_masters")},
    plan_options=PLAN_OPTIONS,
    strategy_help="trim.",
    set_help="Setting, like masters.epsilon=0.2; repeatable.",
    executor=LazyImport("trimtab.act.masters:EXECUTOR"),
    open=LazyImport("trimtab.systems.paxos.port:open_port"),
    undo=LazyImport("trimtab.plan.masters.undo:undo"),
    renderer=LazyImport("trimtab.report.masters"),
    programs="Run a node of a store of groups, publish its map.",
    impact="a few masterships are asked for at once, and watched (execution.masters.max_in_flight)",
)
