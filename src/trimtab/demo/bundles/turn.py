"""Planning and acting of a turn on a Pulsar sandbox."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.files.bundle_plan import bundle_plan_bytes
from trimtab.files.bundles_snapshot import read_bundles_snapshot

if TYPE_CHECKING:
    from trimtab.act.bundles.state import BundlesState
    from trimtab.connect.pulsar import PulsarConnection
    from trimtab.demo.bundles.world import BundlesWorld
    from trimtab.demo.screen import Screen
    from trimtab.model.bundle_plan import BundlePlan
    from trimtab.model.bundle_receipt import BundlesReceipt
    from trimtab.model.bundles_settings import BundlesSettings
    from trimtab.model.bundles_snapshot import BundlesSnapshot


def newest(world: BundlesWorld) -> BundlesSnapshot:
    """The snapshot that the pipeline wrote last."""
    return read_bundles_snapshot(world.lake.newest_snapshot())


def decide(
    screen: Screen, world: BundlesWorld, snapshot: BundlesSnapshot, settings: BundlesSettings
) -> BundlePlan:
    """The plan, told."""
    from trimtab.plan.bundles.trim import plan_bundles
    from trimtab.report.bundle_plan_text import bundle_plan_text

    plan = plan_bundles(snapshot, settings)
    screen.wide(bundle_plan_text(plan, snapshot))
    return plan


def carry_out(
    connection: PulsarConnection,
    plan: BundlePlan,
    folder: Path,
    watch: Callable[[BundlesState], None] = lambda _: None,
) -> BundlesReceipt:
    """Carry a plan out, journalled below `folder`.

    Parameters
    ----------
    watch
        Told the state after every event.
    """
    from trimtab.act.apply_bundles import apply_bundles
    from trimtab.act.bundles.settings import BundlesSettings as Pace
    from trimtab.act.office import Office
    from trimtab.act.pulsar.port import PulsarAdminPort
    from trimtab.connect.pulsar import PulsarAdmin

    office = Office(folder, time.time, time.sleep, lambda: secrets.token_hex(8))
    try:
        with PulsarAdmin(connection) as admin:
            port = PulsarAdminPort(admin, time.time)
            return apply_bundles(port, office, plan, bundle_plan_bytes(plan).decode(), Pace(), watch=watch)
    finally:
        office.close()
