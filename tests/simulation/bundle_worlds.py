"""A world for one seed: an admin API, a plan, what goes wrong, trimtabs that are killed and come back."""

from pathlib import Path

import numpy as np

from simulate.checkers.pulsar import (
    balancing_given_back,
    balancing_off_while_unloading,
    no_bundle_half_split,
    no_claim_left,
    nobody_left_without_owner,
    owners_as_planned,
)
from simulate.pulsar_admin.server import Fault, Trouble
from simulation.worlds import Lives
from support.bundle_plans import bundle_plan_of, split, unload
from support.bundle_trials import NAMESPACE, Bed
from trimtab.act.bundles.executor import EXECUTOR
from trimtab.act.bundles.port import SWITCHES, BundlesPort
from trimtab.act.bundles.state import BundlesExecutionState, UnloadLimits, UnloadSettings
from trimtab.model.bundles.plan import BundleMove, BundlePlan
from trimtab.model.bundles.snapshot import BundleRange

SOMEBODY = "somebody"


class BundleWorld(Lives[BundlesPort, BundlePlan, UnloadSettings, BundlesExecutionState]):
    """One simulated Pulsar cluster, one plan, and the faults that were scheduled."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        bed: Bed,
        plan: BundlePlan,
        settings: UnloadSettings,
        generator: np.random.Generator,
    ) -> None:
        self.bed = bed
        self.before = dict(bed.cluster.overrides)
        super().__init__(
            executor=EXECUTOR,
            seed=seed,
            folder=folder,
            port=bed.port,
            clean_port=bed.port,
            cluster_id="simulated",
            plan=plan,
            settings=settings,
            generator=generator,
        )

    def clock(self) -> float:
        """Virtual time as seconds since 1970."""
        return self.bed.now

    def pass_time(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.bed.sleep(seconds)

    def settle(self) -> None:
        """Elect leaders, end sessions, and assign bundles that are due."""
        self.bed.cluster.settle()

    def evaluate(self) -> list[str]:
        """The violations at the end."""
        assert self.state is not None
        for _ in range(100):
            self.bed.sleep(3.0)
            self.bed.cluster.settle()
        self.bed.faults.clear()
        self.clear_claims()
        cluster = self.bed.cluster
        return [
            *balancing_given_back(cluster, self.before),
            *balancing_off_while_unloading(cluster, self.before),
            *no_bundle_half_split(cluster, self.state),
            *owners_as_planned(cluster, self.state),
            *nobody_left_without_owner(cluster),
            *no_claim_left(cluster),
        ]

    def __str__(self) -> str:
        head = f"seed {self.seed}, {'extensible' if self.bed.cluster.extensible else 'modular'}"
        moves = (f"  {m.kind} {m.bundle} {m.target} {m.boundaries}" for m in self.plan.moves)
        past = self.bed.cluster.history
        history = (f"  {one.at:.2f} {one.actor} {one.verb} {one.subject} {one.detail}" for one in past)
        return "\n".join([head, "plan:", *moves, *self.steps_and_log(), "history:", *history])


def random_bundle_world(seed: int, folder: Path, faults: int = 0, lost_fraction: float = 0.0) -> BundleWorld:
    """Three to five brokers, a plan of unloads and splits, and so many things that go wrong."""
    generator = np.random.default_rng(seed)
    brokers = tuple(f"b{number}:8080" for number in range(int(generator.integers(3, 6))))
    bed = Bed(
        bundles=int(generator.choice([4, 6, 8])),
        topics=int(generator.integers(12, 16)),
        brokers=brokers,
        seed=seed,
        extensible=bool(generator.integers(2)),
        lost_hint_fraction=lost_fraction,
        session_seconds=10.0,
    )
    for key in bed.keys:
        bed.cluster.give(key, str(generator.choice(brokers)))
    if generator.random() < 0.3:
        bed.cluster.overrides[SWITCHES[0]] = str(generator.choice(["true", "false"]))
    plan = bundle_plan_of(*_moves(generator, bed, brokers), cluster="simulated")
    settings = UnloadSettings(
        poll_interval_seconds=0.5,
        check_interval_seconds=2.0,
        metadata_lag_seconds=3.0,
        broker_timeout_seconds=25.0,
        external_change_timeout_seconds=120.0,
        unhealthy_timeout_seconds=60.0,
        unreachable_timeout_seconds=60.0,
        lease_seconds=30.0,
        limits=UnloadLimits(
            max_unloads_per_batch=int(generator.integers(1, 4)),
            batch_pause_seconds=float(generator.choice([0.0, 1.0])),
            max_sessions_per_minute=int(generator.choice([4, 20, 5000])),
            session_timeout_seconds=10.0,
            external_change_cooldown_seconds=float(generator.choice([5.0, 70.0])),
        ),
    )
    world = BundleWorld(seed, folder, bed, plan, settings, generator)
    for _ in range(faults):
        _go_wrong(world, brokers)
    return world


def _moves(generator: np.random.Generator, bed: Bed, brokers: tuple[str, ...]) -> list[BundleMove]:
    moves = []
    for bundle in bed.cluster.bundles_of(NAMESPACE):
        owner = bed.cluster.owners[bundle.key]
        others = [broker for broker in brokers if broker != owner]
        draw = generator.random()
        if draw < 0.25:
            parts = int(generator.integers(2, 4))
            width = (bundle.high - bundle.low) // parts
            cuts = tuple(bundle.low + width * n for n in range(1, parts))
            moves.append(split(bundle.key, owner, *cuts))
            part = BundleRange(NAMESPACE, bundle.low, cuts[0])
            if generator.random() < 0.7:
                moves.append(unload(part.key, owner, str(generator.choice(others))))
        elif draw < 0.85:
            sessions = int(generator.integers(1, 10))
            moves.append(unload(bundle.key, owner, str(generator.choice(others)), sessions=sessions))
    return moves


def _go_wrong(world: BundleWorld, brokers: tuple[str, ...]) -> None:
    """Schedule something, within the first minutes."""
    bed, generator = world.bed, world.generator
    at = float(generator.uniform(0.0, 20.0))
    broker = str(generator.choice(brokers))
    kind = int(generator.integers(0, 6))
    if kind == 0:
        bed.cluster.after(at, lambda: _kill(bed, broker))
        back = at + float(generator.choice([4.0, 30.0, 100.0]))
        bed.cluster.after(back, lambda: bed.cluster.revive(broker))
    elif kind == 1:
        bed.cluster.after(at, lambda: _cut_some(bed, generator))
    elif kind == 2:
        bed.cluster.after(at, lambda: _move_some(bed, generator))
    elif kind == 3 and generator.random() < 0.5:
        bed.cluster.after(at, lambda: _set(bed, SWITCHES[int(generator.integers(2))], "true"))
    elif kind == 4:
        bed.cluster.after(at, lambda: setattr(bed.cluster.brokers[broker], "healthy", False))
        bed.cluster.after(at + 20.0, lambda: setattr(bed.cluster.brokers[broker], "healthy", True))
    else:
        troubles = (Trouble.REFUSED, Trouble.EMPTY_YES, Trouble.CIRCLE, Trouble.LOST, Trouble.UNHEARD)
        method, path = [
            ("PUT", "/unload"),
            ("PUT", "/split"),
            ("POST", "/configuration/"),
            ("DELETE", "/configuration/"),
            ("GET", "/ownedNamespaces"),
            ("GET", "/configuration"),
            ("PUT", "/properties"),
        ][int(generator.integers(0, 7))]
        trouble = troubles[int(generator.integers(0, len(troubles)))]
        if method == "GET" and trouble is Trouble.EMPTY_YES:
            trouble = Trouble.LOST
        status = int(generator.choice([404, 409, 412, 500, 503]))
        if method != "PUT":
            status = 500
        times, skip = int(generator.integers(1, 4)), int(generator.integers(0, 3))
        bed.faults.append(Fault(method, path, trouble, times=times, skip=skip, status=status))


def _kill(bed: Bed, broker: str) -> None:
    up = [one for one, how in bed.cluster.brokers.items() if how.up]
    if broker in up and len(up) > 2:
        bed.cluster.kill(broker)


def _cut_some(bed: Bed, generator: np.random.Generator) -> None:
    bundles = bed.cluster.bundles_of(NAMESPACE)
    bundle = bundles[int(generator.integers(len(bundles)))]
    bed.cluster.cut(bundle, [bundle.low + (bundle.high - bundle.low) // 5], SOMEBODY)


def _move_some(bed: Bed, generator: np.random.Generator) -> None:
    owned = sorted(bed.cluster.owners)
    bundle = owned[int(generator.integers(len(owned)))] if owned else None
    up = sorted(one for one, how in bed.cluster.brokers.items() if how.up)
    if bundle is not None:
        target = str(generator.choice(up))
        bed.cluster.give(bundle, target)
        bed.cluster.note(SOMEBODY, "assign", bundle, target)


def _set(bed: Bed, switch: str, value: str) -> None:
    bed.cluster.overrides[switch] = value
    bed.cluster.note(SOMEBODY, "set", switch, value)
