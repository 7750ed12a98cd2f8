"""A receipt of balancer `replicas`: which partitions got other replicas or leaders, and what was copied."""

from dataclasses import dataclass

from trimtab.model.imbalance import ImbalanceSummary
from trimtab.model.receipt import Receipt, StepOutcome


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
