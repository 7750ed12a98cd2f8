"""An execution under random interleavings of faults: whatever happens, in whatever order, it ends clean."""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from support.executing import prepared
from support.fake_port import FakeCluster, random_cluster
from support.invariants import forbidden_changes, violations
from support.memory_journal import MemoryJournal
from support.plans import plan_of
from tiers import by_tier
from trimtab.act.control import Runner
from trimtab.act.execution.port import Command, Failure, Finish, Suspend
from trimtab.act.replicas.machine import ReplicasMachine
from trimtab.act.replicas.port import TopicPartition
from trimtab.act.replicas.state import ReplicasExecutionSettings, ReplicasExecutionState
from trimtab.model.replicas.plan import Plan

BROKERS = 6
SETTINGS = ReplicasExecutionSettings(
    throttle="50000000",
    initial_copies_per_broker=2,
    broker_timeout_seconds=5.0,
    stall_timeout_seconds=30.0,
    external_change_timeout_seconds=20.0,
    unhealthy_timeout_seconds=20.0,
    in_sync_timeout_seconds=5.0,
    metadata_lag_seconds=1.0,
    unreachable_timeout_seconds=1000.0,
    max_attempts=50,
)
OPERATORS_OWN = {"leader.replication.throttled.rate": "123"}
LONGEST_RUN = 20_000


def random_plan(cluster: FakeCluster, chance: random.Random) -> Plan:
    """Leader moves, single and double replica moves, and one or two replicas more, of random partitions."""
    changes = []
    for partition, part in sorted(cluster.parts.items()):
        before = tuple(part.replicas)
        kinds = ["none", "leader", "first", "second", "both", "leader then second", "grow", "grow by two"]
        kind = chance.choice(kinds)
        others = [b for b in range(1, BROKERS + 1) if b not in before]
        first, second = chance.sample(others, 2)
        after = {
            "none": before,
            "leader": before[::-1],
            "first": (first, before[1]),
            "second": (before[0], second),
            "both": (first, second),
            "leader then second": (before[1], second),
            "grow": (*before, first),
            "grow by two": (*before, first, second),
        }[kind]
        if after != before:
            changes.append((partition.topic, partition.partition, before, after))
    return plan_of(*changes)


class Faults(RuleBasedStateMachine):
    """A cluster, an execution on it, and everything that may happen to both."""

    @initialize(seed=st.integers(0, 10_000), throttled=st.booleans())
    def begin(self, seed: int, throttled: bool) -> None:
        """A random cluster and a random plan; now and then an operator's own throttle is there already."""
        chance = random.Random(seed)
        self.cluster = random_cluster(seed, BROKERS, partitions=9)
        if throttled:
            self.cluster.rates.update(OPERATORS_OWN)
            self.cluster.lists["leader"]["t1"] = "*"
        self.rates = dict(self.cluster.rates)
        self.lists = {kind: dict(lists) for kind, lists in self.cluster.lists.items()}
        state = prepared(self.cluster, random_plan(self.cluster, chance), SETTINGS)
        self.journal = MemoryJournal(state)
        self.foreign: set[TopicPartition] = set()
        self._take_up()

    def _take_up(self) -> None:
        self.runner = Runner(
            ReplicasMachine(self.cluster, self.cluster.clock),
            self.journal,
            None,
            1,
            self.journal.state(),
            clock=self.cluster.clock,
            sleep=self.cluster.sleep,
        )
        self.before: ReplicasExecutionState = self.runner.state
        self.command: Command = self.runner.begin()

    # ------------------------------------------------------------ time passes

    @rule(turns=st.integers(1, 30))
    def go_on(self, turns: int) -> None:
        """The runner performs some orders."""
        for _ in range(turns):
            self._turn()

    def _turn(self) -> None:
        if not isinstance(self.command, Finish | Suspend):
            self.before = self.runner.state
            self.command = self.runner.turn(self.command)
            self.check()

    # ------------------------------------------------------------ faults of the cluster

    @rule(broker=st.integers(1, BROKERS))
    def a_broker_dies(self, broker: int) -> None:
        """At most two at once."""
        if len(self.cluster.alive) > BROKERS - 2:
            self.cluster.kill(broker)

    @rule(broker=st.integers(1, BROKERS))
    def a_broker_comes_back(self, broker: int) -> None:
        """With its data."""
        if broker not in self.cluster.alive:
            self.cluster.revive(broker)

    @rule(topic=st.sampled_from(["t0", "t1", "t2"]))
    @precondition(lambda self: len(self.cluster.parts) > 3)
    def a_topic_is_deleted(self, topic: str) -> None:
        """With all that is in flight of it."""
        self.cluster.delete(topic)
        for lists in self.lists.values():
            lists.pop(topic, None)

    @rule(data=st.data())
    @precondition(lambda self: self.cluster.parts)
    def a_replication_factor_changes(self, data: st.DataObject) -> None:
        """Somebody adds a replica to a partition that is not in flight."""
        partition = data.draw(st.sampled_from(sorted(self.cluster.parts)))
        part = self.cluster.parts[partition]
        if part.target is None and len(part.replicas) < 4:
            new = next(b for b in range(1, BROKERS + 1) if b not in part.replicas)
            part.replicas.append(new)
            part.in_sync.add(new)

    @rule(data=st.data())
    @precondition(lambda self: self.cluster.parts)
    def somebody_else_reassigns(self, data: st.DataObject) -> None:
        """Another tool takes a partition over, ours in flight or not."""
        partition = data.draw(st.sampled_from(sorted(self.cluster.parts)))
        part = self.cluster.parts[partition]
        target = data.draw(st.permutations(range(1, BROKERS + 1)))[: len(part.replicas)]
        with self._reachable():
            self.cluster.reassign({partition: tuple(target)})
        self.foreign.add(partition)

    @rule(data=st.data())
    @precondition(lambda self: self.cluster.parts)
    def somebody_else_cancels(self, data: st.DataObject) -> None:
        """Another tool cancels a reassignment, ours or its own."""
        partition = data.draw(st.sampled_from(sorted(self.cluster.parts)))
        with self._reachable():
            self.cluster.cancel_reassignments([partition])

    @rule(calls=st.integers(1, 5))
    def the_controller_is_away(self, calls: int) -> None:
        """The next calls fail as a whole."""
        self.cluster.fail_next += [Failure("NotController", "no controller", transient=True)] * calls

    @contextmanager
    def _reachable(self) -> Iterator[None]:
        """Others reach the controller, whatever happens to our calls."""
        kept, self.cluster.fail_next = self.cluster.fail_next, []
        yield
        self.cluster.fail_next = kept

    # ------------------------------------------------------------ what people and kernels do to us

    @rule()
    def killed_before_performing(self) -> None:
        """Kill -9 after the order was written down, before it was given; then resumed."""
        self._take_up()

    @rule()
    def killed_after_performing(self) -> None:
        """Kill -9 after the order was given, before its answer was written down; then resumed."""
        if not isinstance(self.command, Finish | Suspend):
            self.runner.perform(self.command)
        self._take_up()

    @rule()
    def stopped(self) -> None:
        """Ctrl-C once."""
        self.runner.stop()

    @rule()
    def cancelled(self) -> None:
        """Ctrl-C twice."""
        self.runner.cancel()

    # ------------------------------------------------------------ what must hold

    @invariant()
    def check(self) -> None:
        """No state is unsound, none is reached by a forbidden way, and the end is clean."""
        if not hasattr(self, "runner"):
            return
        state = self.runner.state
        assert violations(state) == []
        assert forbidden_changes(self.before, state) == []
        self._nothing_unremembered(state)
        if state.final:
            self._clean()

    def _nothing_unremembered(self, state: ReplicasExecutionState) -> None:
        """Whatever stands in the cluster's throttle settings is the operator's, or is in our memory."""
        if not state.throttle.rates_touched:
            assert self.cluster.rates == self.rates
        for kind, lists in self.cluster.lists.items():
            for topic, value in lists.items():
                assert topic in state.throttle.topics or value == self.lists[kind].get(topic)

    def _clean(self) -> None:
        assert self.cluster.rates == self.rates
        assert self.cluster.lists == self.lists
        ours = {record.step.partition for record in self.runner.state.records} - self.foreign
        assert [p for p in ours if p in self.cluster.parts and self.cluster.parts[p].target] == []

    def teardown(self) -> None:
        """Once the faults are over, a resumed execution reaches its end, clean, with no replica lost."""
        if not hasattr(self, "runner"):
            return
        for broker in range(1, BROKERS + 1):
            self.cluster.revive(broker)
        self.cluster.fail_next.clear()
        self._run_out(self._take_up)
        assert self.runner.state.final
        for part in self.cluster.parts.values():
            assert len(set(part.replicas)) == len(part.replicas) >= 2
            assert part.leader in part.replicas

    def _run_out(self, begin: Callable[[], None]) -> None:
        begin()
        for _ in range(LONGEST_RUN):
            if isinstance(self.command, Finish | Suspend):
                break
            self._turn()
        assert isinstance(self.command, Finish), self.command


Faults.TestCase.settings = settings(
    max_examples=by_tier(30, 150, 150),
    stateful_step_count=30,
    deadline=None,
    phases=[Phase.explicit, Phase.reuse, Phase.generate],  # shrinking these takes minutes
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
TestFaults = Faults.TestCase
TestFaults.__doc__ = "Random interleavings of faults; see `Faults`."
