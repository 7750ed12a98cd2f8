"""The order guard: every interleaving of small worlds, and seeded faults over many records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from simulate.keys.checker import KeysInvariantError, SimulatedEffects
from simulate.keys.clients import SimulatedLogEntry
from simulate.keys.explore import FaultRates, explore
from simulate.keys.run import simulate
from simulate.keys.world import KeysWorld
from tiers import by_tier
from trimtab_keys.core.order import OrderedRecord, OrderingConfig, Stamp
from trimtab_keys.core.routing import POSITIVE, Route, RoutingTable, group_count, murmur2


def hashed(key: bytes) -> int:
    """Without its sign."""
    return murmur2(key) & POSITIVE


A = next(b"%d" % number for number in range(99) if hashed(b"%d" % number) % 2 == 0)
B = next(b"%d" % number for number in range(99) if hashed(b"%d" % number) % 2 == 1)
"""Keys at home in partitions 0 and 1 of two."""
GROUP_A, GROUP_B = hashed(A) % group_count(2), hashed(B) % group_count(2)


def table(
    version: int, groups: Mapping[int, Route], keys: Mapping[bytes, Route] | None = None
) -> RoutingTable:
    """Over two partitions."""
    return RoutingTable(version, 2, 2, groups, keys or {})


EXCHANGED = table(1, {GROUP_A: Route((1,), (0,)), GROUP_B: Route((0,), (1,))})
SPLIT = table(1, {}, {A: Route((0, 1), (0,))})
STILL_SPLIT = table(2, {}, {A: Route((0, 1))})
"""No earlier places any more, and nobody has looked at what has taken effect."""
TOGETHER = table(2, {}, {A: Route((1,), (0, 1))})


def nothing() -> float:
    """The first of equals; a generator with a memory would make equal states differ."""
    return 0.0


def world(plans: Sequence[Sequence[bytes]], *tables: RoutingTable) -> KeysWorld:
    """Two partitions with a consumer each."""
    made = KeysWorld(2, 2, plans, OrderingConfig(run_records=1), nothing)
    made.tables = list(tables)
    return made


@pytest.mark.parametrize(
    ("plans", "tables", "faults", "least"),
    [
        pytest.param([[A, A], [B]], [EXCHANGED], FaultRates(), 3000, id="two keys change places"),
        pytest.param([[A, A], [A]], [SPLIT], FaultRates(), 2500, id="a key of two producers is split"),
        pytest.param(
            [[A, A], []], [SPLIT, TOGETHER], FaultRates(), 2500, id="a key is split and put together"
        ),
        pytest.param([[A, A], []], [SPLIT], FaultRates(fails=1), 1500, id="a delivery fails"),
        pytest.param([[A, A], []], [SPLIT], FaultRates(dead_producers=1), 3000, id="a producer dies"),
        pytest.param(
            [[A, A, A]],
            [SPLIT, STILL_SPLIT],
            FaultRates(dead_producers=1),
            20000,
            id="another run goes on",
            marks=pytest.mark.slow,
        ),
        pytest.param([[A], []], [EXCHANGED], FaultRates(dead_consumers=1), 200, id="a consumer dies"),
        pytest.param(
            [[A], []], [EXCHANGED], FaultRates(sleepers=1), 400, id="a consumer sleeps and is replaced"
        ),
    ],
)
def test_every_interleaving_keeps_the_promises(
    plans: Sequence[Sequence[bytes]], tables: Sequence[RoutingTable], faults: FaultRates, least: int
) -> None:
    """Two partitions; at each end nothing is out of order, lost, doubled or held."""
    assert explore(world(plans, *tables), faults) >= least


@pytest.mark.parametrize("seed", range(by_tier(1, 4, 4)))
def test_seeded_faults_keep_the_promises(seed: int) -> None:
    """Three producers, three consumers, five partitions; `scripts/simulate keys` runs more."""
    found = simulate(seed, 20_000)
    assert found.tables > 5
    assert found.doubled > 0, "otherwise nothing was received twice, and marks were not needed"
    assert found.max_held > 0
    assert found.settled > 0, "earlier places were taken out of tables while records came"
    assert found.effects >= 0.9 * found.records


@pytest.mark.parametrize("seed", range(by_tier(1, 5, 5)))
def test_only_records_deleted_by_retention_are_lost(seed: int) -> None:
    """Logs are truncated beyond unconsumed records: fences and sequences that wait for them stop waiting."""
    found = simulate(seed, 20_000, retention=True)
    assert found.lost > 0, "nothing was cut off that somebody waited for"
    assert found.effects + found.lost >= 0.9 * found.records


def test_records_deleted_by_retention_may_take_effect_too_late_at_a_replaced_consumer() -> None:
    """A limit: the consumer with the record does not know that others have continued without it, and no
    checkpoint shows it.
    """
    made = KeysWorld(2, 2, [[A, A]], OrderingConfig(run_records=1), nothing, retention=True)
    made.tables = [EXCHANGED]
    made.send(0)
    made.append(0, 0)
    made.poll(0, 0)
    made.hand_over(0, 1, text=False)
    made.retain(0, 1)
    made.poll(1, 0)
    made.tick(1)
    made.read_table(0, 0)
    while made.switchable(0):
        made.switch(0)
    made.send(0)
    made.append(0, 1)
    made.poll(1, 1)
    made.read_commits(1)
    made.effect(1)
    with pytest.raises(KeysInvariantError, match="number 1 of its key and took effect after 2"):
        made.effect(0)


def record(key: bytes, sequence: int = 0, epoch: int = 1) -> OrderedRecord:
    """Of one producer."""
    return OrderedRecord("p", key, 0, Stamp(epoch if sequence else 0, (), sequence))


def test_the_checker_detects_overtaken_duplicate_and_lost_records() -> None:
    """It would notice what it is there for."""
    effects = SimulatedEffects()
    effects.apply(0, 0, record(A), 2)
    with pytest.raises(KeysInvariantError, match="number 1 of its key and took effect after 2"):
        effects.apply(1, 0, record(A), 1)
    with pytest.raises(KeysInvariantError, match="number 2 of its key and took effect after 2"):
        effects.apply(1, 1, record(A), 2)
    with pytest.raises(KeysInvariantError, match="was released after sequence 0"):
        effects.apply(0, 5, record(B, 2), 2)
    effects.acknowledged["p", A] = [1, 2]
    with pytest.raises(KeysInvariantError, match="1 acknowledged records of .* are lost, first 1"):
        effects.check_complete()


def test_the_checker_accepts_only_records_deleted_before_they_took_effect() -> None:
    """Of four numbers the first has taken effect, two are deleted, and the fourth is lost."""
    effects = SimulatedEffects()
    effects.acknowledged["p", A] = [1, 2, 3, 4]
    effects.apply(0, 0, record(A), 1)
    for number in (1, 2, 3):
        effects.delete(record(A), number)
    assert effects.deleted == {("p", A): {2, 3}}
    with pytest.raises(KeysInvariantError, match="1 acknowledged records of .* are lost, first 4"):
        effects.check_complete()
    # A consumer had it in hand: it takes effect all the same, in its order.
    effects.apply(0, 2, record(A), 3)
    assert effects.lost == 1
    effects.apply(0, 3, record(A), 4)
    effects.check_complete()


@pytest.mark.parametrize(("deleted", "waits"), [((), True), ((1,), True), ((1, 2), False), ((2,), True)])
def test_a_later_run_waits_for_the_retained_records_of_the_previous_run(
    deleted: tuple[int, ...], waits: bool
) -> None:
    """Two records of the run before are owed; what is left of them has to take effect first."""
    made = KeysWorld(2, 2, [[A, A]], OrderingConfig(run_records=1), nothing, retention=True)
    made.tables = [SPLIT]
    made.send(0, 2)
    made.append(0, 0, 2)
    made.kill_producer(0)
    made.read_table(0, 0)
    while made.switchable(0):
        made.switch(0)
    for number in deleted:
        made.effects.delete(record(A)._replace(producer="0"), number)
    later = record(A)._replace(producer="1")
    if waits:
        with pytest.raises(KeysInvariantError, match="took effect before number"):
            made.pending_acks.check(SimulatedLogEntry(later, 1, 0), later, made.effects)
    else:
        made.pending_acks.check(SimulatedLogEntry(later, 1, 0), later, made.effects)


def test_a_record_held_indefinitely_is_a_violation() -> None:
    """A fence in a partition that never becomes so long, with time-outs that never expire."""
    made = world([[A]])
    made.send(0)
    entry = made.producers[0].flying[0].popleft()
    assert entry.record is not None
    stamp = Stamp(1, ((1, 5),))
    made.logs[0].append(entry._replace(record=entry.record._replace(stamp=stamp)))
    made.consumers[0].receiver.probed = lambda *_: []  # type: ignore[method-assign]
    with pytest.raises(KeysInvariantError, match=r"held for ever: \[1, 0\]"):
        made.settle()
