"""A plan of the balancer `replicas` and the receipt of its execution: moves in order, reasons, effects.

`trimtab.files.replicas.plan` reads and writes the plan (format `trimtab/plan/1`).
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

from msgspec import Meta

from trimtab.model import plan
from trimtab.model.documents import Amount, Order, Receipt, StepOutcome
from trimtab.model.load import ImbalanceSummary
from trimtab.model.replicas.log_dirs import DirMeasures
from trimtab_common.documents import Count, Id, Name


class ReplicaMoveKind(StrEnum):
    """The part of a placement that a move of the balancer `replicas` changes."""

    LEADER = "leader"
    """The leader role goes from `source` to the in-sync replica on `target`, which becomes the first of the
    list."""
    REPLICA = "replica"
    """The replica on `source` goes to `target`, taking its place in the list (and its role, if it leads)."""
    LOG_DIR = "log_dir"
    """The replica stays on its broker (`source` = `target`) and goes to another log dir there."""
    ORDER = "order"
    """The leader (`source` = `target`) becomes the first of the list; it leads on, and nothing is copied."""
    ADD = "add"
    """The partition gets one replica more, on `target`, at the end of its list; `source` is None."""
    DROP = "drop"
    """The replica on `source` (= `target`) is given up, and nobody takes its place; nothing is copied."""


@dataclass(frozen=True, slots=True)
class ReplicaReason:
    """The goal and the broker that a move serves.

    Attributes
    ----------
    goal
        Name of the goal, as in settings (`theta`, `epsilon`, `rack`, `drain`, ...).
    resource
        Name of the resource, or None for goals that are about placement.
    broker
        Kafka's id of the broker that the move relieves or fills.
    before, after, limit
        The broker's value of the goal's measure before and after this move, and the bound it should meet;
        fractions of capacity for resources; None where the goal has no number, or the move only lets a later
        one happen (goal, resource, broker and limit are that one's).
    text
        The same for people, with why this replica and this destination.
    """

    goal: Name
    resource: Name | None
    broker: Id
    before: float | None
    after: float | None
    limit: float | None
    text: str


@dataclass(frozen=True, slots=True)
class ReplicaMove:
    """One step; Kafka ids, not indices.

    `source` is None where there is no leader to take the role from, and where a replica is added.
    """

    order: Order
    kind: ReplicaMoveKind
    topic: Name
    partition: Id
    source: Id | None
    target: Id
    bytes: Count
    reason: ReplicaReason
    source_dir: Name | None = None
    target_dir: Name | None = None


@dataclass(frozen=True, slots=True)
class ReplicaAssignment:
    """A partition's replica list (Kafka's order) before and after the whole plan.

    Of another length, where replicas are added or dropped.
    """

    topic: Name
    partition: Id
    before: Annotated[tuple[Id, ...], Meta(min_length=1, extra_json_schema={"uniqueItems": True})]
    after: Annotated[tuple[Id, ...], Meta(min_length=1, extra_json_schema={"uniqueItems": True})]
    leader_after: Id | None


@dataclass(frozen=True, slots=True)
class ReplicaCost:
    """The price of carrying the plan out; `bytes` go over the network, `log_dir_bytes` between disks.

    Added replicas cost bytes as moved ones do; `replica_moves` counts the moved alone.
    """

    bytes: Count
    replica_moves: Count
    leader_moves: Count
    log_dir_moves: Count = 0
    log_dir_bytes: Count = 0
    order_moves: Count = 0
    added_replicas: Count = 0
    dropped_replicas: Count = 0


@dataclass(frozen=True, slots=True)
class ReplicaBound:
    """No plan that meets the same goals copies fewer bytes between brokers; `proof` says why.

    `log_dir_bytes` is the same for bytes between log dirs, where nothing leaves its broker; else 0.
    """

    bytes: Count
    proof: str
    log_dir_bytes: Count = 0


@dataclass(frozen=True, slots=True)
class DirPrediction:
    """Measures of the log dirs in the snapshot, and after all moves."""

    before: DirMeasures
    after: DirMeasures


@dataclass(frozen=True, slots=True)
class CountSpread:
    """A number over the brokers that it is counted on (fractions of capacity for potential network out)."""

    minimum: Amount
    mean: Amount
    maximum: Amount


@dataclass(frozen=True, slots=True)
class CountSpreadPrediction:
    """A number under the snapshot, and under the placement after all moves."""

    before: CountSpread
    after: CountSpread


@dataclass(frozen=True, slots=True)
class TopicGoalPrediction:
    """How many topics a goal is about, and how many of them miss it in the snapshot and after all moves."""

    topics: Count
    before: Count
    after: Count


@dataclass(frozen=True, kw_only=True)
class ReplicasPlan(plan.Plan[ReplicaMove]):
    """A plan of the balancer `replicas`: the moves, the lists they end in, and their price.

    Attributes
    ----------
    hosts
        Measures over the hosts, where they bear load of their own.
    numbers
        By name, the numbers that goals ask for.
    topics
        By goal, the topics that goals are about.
    """

    assignments: tuple[ReplicaAssignment, ...]
    cost: ReplicaCost
    bound: ReplicaBound
    log_dirs: DirPrediction | None = None
    hosts: plan.Prediction | None = None
    numbers: dict[str, CountSpreadPrediction] | None = None
    topics: dict[str, TopicGoalPrediction] | None = None


Plan = ReplicasPlan


@dataclass(frozen=True, slots=True)
class ReplicaOutcome(StepOutcome):
    """The outcome of one step of the balancer `replicas`.

    Attributes
    ----------
    kind
        `lead` (leadership), `copy` (between brokers) or `log_dir` (within a broker).
    bytes
        What it copied, or would have.
    """

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    bytes: int


@dataclass(frozen=True)
class ReplicasReceipt(Receipt[ReplicaOutcome]):
    """The end of an execution of the balancer `replicas`.

    Attributes
    ----------
    measured
        σ, worst γ and peak under the placement reached, by the newest telemetry, or by the plan's loads where
        there is none from after the last step; None where no load is known.
    measured_from
        Which of them it is, in words.
    notes
        Sentences on settings of the cluster: brokers that stay cordoned, or could not be.
    """

    measured: ImbalanceSummary | None = None
    measured_from: str = ""
    notes: tuple[str, ...] = ()

    @property
    def copied_bytes(self) -> int:
        """Bytes of all copies between brokers that were done."""
        return sum(outcome.bytes for outcome in self.done if outcome.kind == "copy")

    @property
    def added_replicas(self) -> int:
        """By how much the lists grew that were made longer."""
        return sum(max(0, len(one.after) - len(one.before)) for one in self.done)

    @property
    def dropped_replicas(self) -> int:
        """By how much the lists shrank that were made shorter."""
        return sum(max(0, len(one.before) - len(one.after)) for one in self.done)

    @property
    def log_dir_bytes(self) -> int:
        """Bytes of all copies between the log dirs of a broker that were done."""
        return sum(outcome.bytes for outcome in self.done if outcome.kind == "log_dir")
