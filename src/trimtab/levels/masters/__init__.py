"""The level `masters`: masterships of replicated groups over nodes."""

from __future__ import annotations

from trimtab.levels.level import Level, Part, Seat
from trimtab.levels.systems import KAFKA, PAXOS

LEVEL = Level(
    name="masters",
    title="masterships over nodes",
    system=PAXOS,
    seats=(
        Seat(
            KAFKA,
            seen=Part("trimtab.observe.collect.kafka.leaders:leaders"),
            open=Part("trimtab.act.kafka.leaders:open_leaders"),
        ),
    ),
    carrier="node",
    remedy="finds the takeovers that help",
    moves="a mastership (taken over by its ideal node, under load)",
    across="node to node",
    trigger="a node that died, came back or is drained; a tick",
    settings=Part("trimtab.files.masters.settings:SECTION"),
    snapshot=Part("trimtab.files.masters.snapshot:FORMAT"),
    plan=Part("trimtab.files.masters.plan:FORMAT"),
    pipeline=Part("trimtab.observe.masters.pipeline:PIPELINE"),
    glance=Part("trimtab.observe.collect.paxos.glance:look"),
    planners={"trim": Part("trimtab.plan.masters.trim:plan_masters")},
    plan_options=Part("trimtab.levels.masters.options:PLAN"),
    strategy_help="trim.",
    set_help="A setting, like masters.epsilon=0.2; may be given again.",
    acting=Part("trimtab.act.masters.acting:ACTING"),
    open=Part("trimtab.act.paxos.port:open_port"),
    words=Part("trimtab.report.masters.words:WORDS"),
    programs="Run a node of a store of many groups with masters.",
    pace="a few masterships are asked for at once, and watched (execution.masters.at_once)",
)
