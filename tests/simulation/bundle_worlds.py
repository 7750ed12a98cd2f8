"""A world for one seed: an admin API, a plan, what goes wrong, trimtabs that are killed and come back."""

from collections.abc import Iterator
from contextlib import contextmanager
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
from simulation.worlds import Killed, mortal_journal
from support.bundle_plans import bundle_plan_of, split, unload
from support.bundle_trials import NAMESPACE, Bed, Checked
from support.journals import CODECS
from support.mortal import MortalJournal
from trimtab.act.bundles.executor import EXECUTOR
from trimtab.act.bundles.port import SWITCHES
from trimtab.act.bundles.state import BundlesExecutionState, UnloadLimits, UnloadSettings
from trimtab.act.control import begin, prepare, runner_of
from trimtab.act.execution.port import PortError
from trimtab.act.execution.state import FINAL
from trimtab.act.journal import ExecutionStore
from trimtab.act.lease import Lease
from trimtab.model.bundles.plan import BundleMove, BundlePlan
from trimtab.model.bundles.range import BundleRange
from trimtab.model.errors import ActError

SOMEBODY = "somebody"


class BundleWorld:
    """One cluster, one plan, and whatever was scheduled to go wrong.

    Attributes
    ----------
    lives
        How many trimtabs have run so far.
    writes
        How many states the last of them wrote down.
    """

    def __init__(
        self,
        seed: int,
        folder: Path,
        bed: Bed,
        plan: BundlePlan,
        settings: UnloadSettings,
        generator: np.random.Generator,
    ) -> None:
        self.seed = seed
        self.folder = folder
        self.bed = bed
        self.plan = plan
        self.settings = settings
        self.generator = generator
        self.before = dict(bed.cluster.overrides)
        self.lives = 0
        self.writes = 0
        self.execution: int | None = None
        self.state: BundlesExecutionState | None = None
        self.log: list[str] = []

    def live(self, dies_at: int | None = None, before: bool = False, cancel: bool = False) -> bool:
        """One trimtab process, from start to end or death; whether it reached a final status."""
        self.lives += 1
        with self._store(dies_at, before) as store:
            try:
                prepared = None
                if self.execution is None:
                    prepared = prepare(EXECUTOR, self.bed.port, self.plan, rebase=True)
                with self._lease() as lease:
                    if prepared is not None:
                        self.execution = begin(EXECUTOR, store, prepared, self.settings, "{}")
                    assert self.execution is not None
                    runner = runner_of(
                        EXECUTOR, store, self.bed.port, lease, self.execution, watch=Checked(self._remember)
                    )
                    if cancel:
                        runner.cancel()
                    runner.run()
            except Killed:
                self.log.append(f"{self.bed.now:.1f}: killed at write {dies_at}{' -' if before else ''}")
            except (ActError, PortError) as error:
                self.log.append(f"{self.bed.now:.1f}: {error}")
            finally:
                assert isinstance(store.journal, MortalJournal)
                self.writes = store.journal.writes
            entries = store.journal.entries()
            self.execution = entries[0].id if entries else None
            return bool(entries) and entries[0].status in FINAL

    def live_to_the_end(self, cancel: bool = False, attempts: int = 30) -> None:
        """Come back until a final status is reached, with some time between two lives."""
        for _ in range(attempts):
            if self.live(cancel=cancel):
                return
            self.bed.sleep(float(self.generator.choice([0.1, 5.0, 60.0, 400.0])))
            self.bed.cluster.settle()
        raise AssertionError(f"no final status after {attempts} lives\n{self}")

    def evaluate(self) -> list[str]:
        """Everything that is wrong at the end."""
        assert self.state is not None
        for _ in range(100):
            self.bed.sleep(3.0)
            self.bed.cluster.settle()
        self.bed.faults.clear()
        # A claim whose process was killed after its last write waits for the next trimtab to clear it away.
        self.lives += 1
        with self._lease():
            pass
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
        lines = [f"seed {self.seed}, {'extensible' if self.bed.cluster.extensible else 'modular'}"]
        lines += ["plan:", *(f"  {m.kind} {m.bundle} {m.target} {m.boundaries}" for m in self.plan.moves)]
        lines += ["lives:", *self.log, "steps:"]
        if self.state is not None:
            lines += [f"  {r.step} {r.state}: {r.reason}" for r in self.state.records]
            lines.append(f"  {self.state.status}: {self.state.reason}; {self.state.notes}")
        history = self.bed.cluster.history
        lines += ["history:", *(f"  {d.at:.2f} {d.actor} {d.verb} {d.subject} {d.detail}" for d in history)]
        return "\n".join(lines)

    @contextmanager
    def _store(self, dies_at: int | None, before: bool) -> Iterator[ExecutionStore]:
        store = ExecutionStore(
            self.folder, CODECS, self.bed.clock, self.bed.sleep, lambda: f"life {self.lives}"
        )
        store.journal.close()
        store.journal = mortal_journal(self.folder, dies_at, before)
        try:
            yield store
        finally:
            store.close()

    @contextmanager
    def _lease(self) -> Iterator[Lease]:
        # Each life has a folder of its own for the lock: a killed process has lost it, ours here has not.
        lease = Lease(
            self.bed.port,
            self.folder / f"lives-{self.lives}",
            "simulated",
            self.settings.lease_seconds,
            self.bed.clock,
            self.bed.sleep,
            f"life {self.lives}",
        )
        lease.acquire()
        try:
            yield lease
        except Killed:
            file = lease._lock_file._file
            assert file is not None
            file.close()  # all that is left to do is the kernel's work
            raise
        except BaseException:
            lease.release()
            raise
        lease.release()

    def _remember(self, state: BundlesExecutionState) -> None:
        self.state = state


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
