"""The toy balancer `balls`: balls over boxes."""

from __future__ import annotations

from trimtab.balancers.balancer import AddressForm, Balancer, LazyImport, System
from trimtab.balancers.balls.options import REPLAY

BOXES = System(
    name="boxes",
    title="Boxes",
    address=AddressForm(("boxes:",), "path", "boxes:FILE", lambda address: address.removeprefix("boxes:")),
    connection=LazyImport("trimtab.systems.boxes.settings:boxes_connection"),
    collecting=LazyImport("trimtab.systems.boxes.sampler:SAMPLER"),
)

BALANCER = Balancer(
    name="balls",
    title="balls over boxes",
    system=BOXES,
    moves="a ball",
    across="box to box",
    trigger="a tick",
    settings=LazyImport("trimtab.files.balls.settings:SECTION"),
    snapshot=LazyImport("trimtab.files.balls.snapshot:FORMAT"),
    plan=LazyImport("trimtab.files.balls.plan:FORMAT"),
    pipeline=LazyImport("trimtab.observe.balls.pipeline:PIPELINE"),
    live_status=LazyImport("trimtab.systems.boxes.live_status:read_status"),
    planners={"trim": LazyImport("trimtab.plan.balls.trim:plan")},
    strategy_help="trim.",
    set_help="A setting, like balls.epsilon=0.2; may be given again.",
    executor=LazyImport("trimtab.act.balls.executor:EXECUTOR"),
    open=LazyImport("trimtab.systems.boxes.port:open_port"),
    renderer=LazyImport("trimtab.report.balls.renderer"),
    impact="nothing limits an execution",
    replay=LazyImport("trimtab.history.balls.replay:replayed"),
    replay_options=REPLAY,
)
