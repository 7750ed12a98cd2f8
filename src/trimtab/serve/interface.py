"""What the API, the pages and the metrics need of the service, and nothing else."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from trimtab.files.serve_settings import ServeSettings
from trimtab.serve.documents import (
    BrokerStatus,
    DecisionRecord,
    ExecutionDetail,
    ExecutionRecord,
    Finding,
    LargestPart,
    LoadSeries,
    NotificationStatus,
    PlanRecord,
    TargetDetail,
    TargetStatus,
)
from trimtab_common.errors import TrimtabError


class UnknownError(TrimtabError):
    """There is no such cluster, plan, execution or decision."""


class ConflictError(TrimtabError):
    """The state does not allow the request now: the plan is not on offer, or nothing runs."""


class NotLeaderError(TrimtabError):
    """Another instance decides; `leader_url` is its address, or empty where it is not known."""

    def __init__(self, text: str, leader_url: str = "") -> None:
        super().__init__(text)
        self.leader_url = leader_url


class ServiceInterface(Protocol):
    """All calls return at once, except `make_plan`. They may come from any thread.

    Names of clusters are those of the settings. Each call raises `UnknownError` for an unknown name, digest
    or number, `InputError` for a wrong value, and `ConflictError` where the state does not allow it. Calls
    that change something raise `NotLeaderError` on an instance that does not decide.
    """

    @property
    def settings(self) -> ServeSettings:
        """The settings that are in force."""

    @property
    def instance(self) -> str:
        """Name of this instance, as leases have it."""

    def targets(self) -> Sequence[TargetStatus]:
        """All balancers of all clusters."""

    def target(self, cluster: str, balancer: str) -> TargetDetail:
        """One balancer of one cluster, with its brokers."""

    def largest(
        self, cluster: str, balancer: str, of: str, sort: str = "", count: int = 20
    ) -> Sequence[LargestPart]:
        """The largest `partitions` or `topics` by a resource; by that of the balancer where none is named."""

    def loads(self, cluster: str, balancer: str, since: float, max_points: int) -> LoadSeries:
        """Load since an instant, thinned to at most `max_points` instants."""

    def make_plan(self, cluster: str, balancer: str, settings: Mapping[str, object], by: str) -> PlanRecord:
        """A plan from the newest snapshot with these settings (`drain`, `epsilon`, …); changes nothing."""

    def plans(self, cluster: str | None = None, limit: int = 50) -> Sequence[PlanRecord]:
        """Plans that the service holds, newest first."""

    def plan(self, digest: str) -> PlanRecord:
        """One of them; a prefix of at least 8 characters is enough where it is unique."""

    def plan_bytes(self, digest: str) -> bytes:
        """The plan file, byte for byte."""

    def plan_text(self, digest: str, all_moves: bool = False) -> str:
        """The plan for people, as `trimtab plan` shows it."""

    def plan_brokers(self, digest: str) -> Sequence[BrokerStatus]:
        """The brokers as they are after the plan, by the newest snapshot; empty if that is not known."""

    def apply_plan(self, digest: str, by: str) -> PlanRecord:
        """Approve and execute a plan, within budgets and windows; the digest is the approval."""

    def approve(self, digest: str, by: str) -> PlanRecord:
        """Approve the plan that is on offer."""

    def reject(self, digest: str, by: str, note: str = "") -> PlanRecord:
        """Reject the plan that is on offer."""

    def pause(self, cluster: str, balancer: str, by: str, reason: str, until: float | None) -> TargetStatus:
        """Pause all executions of a target; a running one stops."""

    def resume(self, cluster: str, balancer: str, by: str) -> TargetStatus:
        """End the pause, and lift the limits that the service has put on its triggers."""

    def executions(self, cluster: str | None = None, limit: int = 50) -> Sequence[ExecutionRecord]:
        """Executions of the service, newest first."""

    def execution(self, cluster: str, number: int) -> ExecutionDetail:
        """One execution, with all its steps."""

    def end_execution(
        self, cluster: str, number: int, how: Literal["stop", "cancel"], by: str
    ) -> ExecutionRecord:
        """Stop an execution after the steps under way, or cancel it."""

    def resume_execution(self, cluster: str, number: int, by: str) -> ExecutionRecord:
        """Continue an execution that was stopped."""

    def set_throttle(self, cluster: str, number: int, bytes_per_second: float, by: str) -> ExecutionRecord:
        """Change the throttle of an execution that runs."""

    def decisions(
        self,
        after: int | None = None,
        limit: int = 100,
        cluster: str | None = None,
        balancer: str | None = None,
    ) -> Sequence[DecisionRecord]:
        """Decisions with numbers above `after`, oldest first; without `after` the newest, newest first."""

    def wait_for_decisions(self, after: int, seconds: float) -> Sequence[DecisionRecord]:
        """As `decisions(after)`; blocks up to `seconds` where there is none yet."""

    def notifications(self) -> NotificationStatus:
        """How many notifications wait for delivery, and which were abandoned."""

    def liveness(self) -> Sequence[Finding]:
        """What shows that the process no longer works; empty where it does."""

    def readiness(self) -> Sequence[Finding]:
        """What keeps the service from its work: old snapshots, an unreachable lake, a child that dies."""
