"""The toy level `balls`: balls over boxes."""

from __future__ import annotations

from pathlib import Path

from trimtab.levels.level import Level, Option, Part, System

BOXES = System(
    name="boxes",
    title="Boxes",
    address=Option(
        "--boxes", "The file of boxes; goes before boxes.path.", Path | None, setting="boxes.path"
    ),
    options=(),
    connection=Part("trimtab.connect.boxes.settings:boxes_connection"),
    collecting=Part("trimtab.observe.collect.boxes.collecting:COLLECTING"),
)

LEVEL = Level(
    name="balls",
    title="balls over boxes",
    system=BOXES,
    moves="a ball",
    across="box to box",
    trigger="a tick",
    settings=Part("trimtab.files.balls.settings:SECTION"),
    snapshot=Part("trimtab.files.balls.snapshot:FORMAT"),
    plan=Part("trimtab.files.balls.plan:FORMAT"),
    pipeline=Part("trimtab.observe.balls.pipeline:PIPELINE"),
    glance=Part("trimtab.observe.collect.boxes.glance:look"),
    planners={"trim": Part("trimtab.plan.balls.trim:plan")},
    strategy_help="trim.",
    set_help="A setting, like balls.epsilon=0.2; may be given again.",
    acting=Part("trimtab.act.balls.acting:ACTING"),
    open=Part("trimtab.act.boxes.port:open_port"),
    words=Part("trimtab.report.balls.words:WORDS"),
    pace="nothing limits an execution",
    replay=Part("trimtab.history.balls.replaying:replayed"),
    replay_options=Part("trimtab.levels.balls.options:REPLAY"),
)
