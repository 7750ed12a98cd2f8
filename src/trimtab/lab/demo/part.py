"""The part that one balancer has in the demo: its cluster, its load, its plan, and its words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from trimtab.lab.demo.sampling import SampledSandbox
    from trimtab.lab.demo.screen import DemoOutput
    from trimtab.lab.sandbox.client_task import WorkloadPlan
    from trimtab.lab.sandbox.cluster import Sandbox
    from trimtab.lab.sandbox.load import SandboxLoad
    from trimtab.lab.sandbox.truth import TruthTick
    from trimtab.observe.settings import PipelineSettings


@dataclass(frozen=True)
class DemoTimes:
    """The length of the demo, and its load.

    Attributes
    ----------
    interval_seconds
        Between two samples.
    warm_up_seconds
        Load before the first sample counts: freshly started brokers spend time on compiling themselves.
    ticks
        Samples of each of the two measurements.
    rate
        What producers send, all together: bytes per second to Kafka, messages per second to Pulsar.
    """

    interval_seconds: float
    warm_up_seconds: float
    ticks: int
    rate: float


@dataclass(frozen=True)
class DemoTexts:
    """A balancer's words for the steps that are alike.

    Attributes
    ----------
    system
        Its name.
    cluster
        That is started.
    plan, question
        Headings of planning and of the end.
    records
        Its word for records.
    title
        Of the picture.
    """

    system: str
    cluster: str
    plan: str
    question: str
    records: str
    title: str


SandboxT = TypeVar("SandboxT", bound="Sandbox[Any, Any, Any]")
SnapshotT = TypeVar("SnapshotT", bound=Any)
PlanT = TypeVar("PlanT", bound=Any)
ReceiptT = TypeVar("ReceiptT")


class Demo(ABC, Generic[SandboxT, SnapshotT, PlanT, ReceiptT]):
    """The part that one balancer has in the story.

    Attributes
    ----------
    balancer, resources, texts
        The balancer's.
    times, workload
        How long the demo watches, and the load.
    theta, epsilon
        Goals by resource.
    settle_seconds
        Between the execution and the second measurement.
    """

    balancer: str
    resources: tuple[str, ...]
    texts: DemoTexts
    times: DemoTimes
    workload: WorkloadPlan
    theta: Sequence[float]
    epsilon: Sequence[float]
    settle_seconds: float

    @abstractmethod
    def start(self, screen: DemoOutput) -> SandboxT:
        """A cluster that serves, and a line on where."""

    @abstractmethod
    def create_topics(self, screen: DemoOutput, sandbox: SandboxT) -> None:
        """Make what the load needs, where the system itself puts it."""

    @abstractmethod
    def load_text(self) -> str:
        """The load in a line."""

    @abstractmethod
    def pipeline_settings(self) -> PipelineSettings:
        """The settings of the tables: two samples a window."""

    @abstractmethod
    def sampled(
        self, sandbox: SandboxT, load: SandboxLoad
    ) -> AbstractContextManager[SampledSandbox[SandboxT]]:
        """Samples of the loaded cluster, taken until the block is left."""

    @abstractmethod
    def hosts(self, sandbox: SandboxT) -> Mapping[int, str] | None:
        """The host of each broker; None where a broker's name tells it."""

    @abstractmethod
    def read_snapshot(self, path: Path) -> SnapshotT:
        """The snapshot of a file or folder."""

    @abstractmethod
    def plan(self, snapshot: SnapshotT, noise: Mapping[str, float]) -> PlanT:
        """The plan; `noise` is how far a broker's measured mean may be off by chance, parts of the mean."""

    @abstractmethod
    def plan_text(self, plan: PlanT, snapshot: SnapshotT) -> str:
        """The plan as commands show it."""

    @abstractmethod
    def plan_bytes(self, plan: PlanT) -> bytes:
        """The plan's file."""

    @abstractmethod
    def act(self, screen: DemoOutput, sandbox: SandboxT, snapshot: SnapshotT, plan: PlanT) -> ReceiptT:
        """Carry the plan out, and tell how far it is and what is left."""

    @abstractmethod
    def spent_text(self, receipt: ReceiptT | None) -> str:
        """The price of an execution, in a sentence."""

    @abstractmethod
    def facts(self, receipt: ReceiptT | None, ticks: Sequence[TruthTick]) -> Mapping[str, object]:
        """The balancer's own part of the result: the price, and what clients noticed."""

    def show_clients(self, screen: DemoOutput, receipt: ReceiptT | None, ticks: Sequence[TruthTick]) -> None:
        """Show what clients noticed of the execution, where they can tell."""
        return
