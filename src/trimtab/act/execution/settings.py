"""The `[execution]` table of trimtab.toml: how carefully a plan is carried out."""

from dataclasses import dataclass

from trimtab.model.errors import SettingsError


@dataclass(frozen=True)
class ExecutionSettings:
    """Limits, patience and pace of an execution; every key has a default that suits a busy cluster.

    Attributes
    ----------
    throttle
        `auto` (what the brokers' networks have left, else `throttle_start_bytes_per_second`, then adapted
        while running), `none`, or bytes per second.
    throttle_start_bytes_per_second, throttle_minimum_bytes_per_second
        Where `auto` begins when no head-room is known, and the least it goes down to.
    throttle_headroom_fraction
        Share of a broker's free network that copies may take.
    copies_per_broker, copies_per_broker_maximum
        How many copies a broker may take part in at once, as source or as destination, at first and at most;
        one more after every quiet batch of copies, half as many after trouble.
    copies_per_cluster
        How many partitions may be copied at once.
    leaders_per_batch
        How many leaderships are moved between two looks at the whole cluster.
    disk_reserve_fraction
        Share of a log dir that must stay free when all copies of a batch have arrived.
    poll_seconds, check_seconds
        How often progress, and how often the whole cluster, is looked at while a batch runs.
    drop_unneeded
        Whether steps that later telemetry shows to be no longer needed are dropped.
    attempts, backoff_seconds, backoff_maximum_seconds
        How often a refused step is tried, and the pause before the second attempt; it doubles each time.
    broker_grace_seconds
        How long a broker may be gone before the steps towards it are given up.
    stall_seconds
        How long a copy may make no progress before it is rolled back.
    foreign_wait_seconds
        How long to wait for another tool's reassignment to end before stopping.
    unhealthy_wait_seconds
        How long to wait for offline or under-min-ISR partitions to recover before stopping.
    in_sync_wait_seconds
        How long a leadership move waits for its replica to be in sync before it is skipped.
    settle_seconds
        How long a broker's metadata may lag the controller.
    give_up_seconds
        How long the cluster may be out of reach before the process gives up (and can be resumed).
    lease_seconds
        After how long without a sign of life another trimtab may take over.
    """

    throttle: str | float = "auto"
    throttle_start_bytes_per_second: float = 50_000_000.0
    throttle_minimum_bytes_per_second: float = 1_000_000.0
    throttle_headroom_fraction: float = 0.5
    copies_per_broker: int = 5
    copies_per_broker_maximum: int = 20
    copies_per_cluster: int = 100
    leaders_per_batch: int = 500
    disk_reserve_fraction: float = 0.05
    poll_seconds: float = 0.5
    check_seconds: float = 5.0
    drop_unneeded: bool = True
    attempts: int = 8
    backoff_seconds: float = 0.25
    backoff_maximum_seconds: float = 15.0
    broker_grace_seconds: float = 30.0
    stall_seconds: float = 300.0
    foreign_wait_seconds: float = 600.0
    unhealthy_wait_seconds: float = 300.0
    in_sync_wait_seconds: float = 60.0
    settle_seconds: float = 5.0
    give_up_seconds: float = 300.0
    lease_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Refuse values that no execution could work with."""
        self.fixed_rate  # noqa: B018 - reading it checks the form of `throttle`
        for name in (
            "throttle_start_bytes_per_second",
            "throttle_minimum_bytes_per_second",
            "copies_per_broker",
            "copies_per_broker_maximum",
            "copies_per_cluster",
            "leaders_per_batch",
            "poll_seconds",
            "check_seconds",
            "attempts",
            "backoff_seconds",
            "lease_seconds",
        ):
            if not getattr(self, name) > 0:
                raise SettingsError(f"execution.{name} is {getattr(self, name)}: it must be above 0")
        for name in ("throttle_headroom_fraction", "disk_reserve_fraction"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingsError(f"execution.{name} is {getattr(self, name)}: it must be 0 to below 1")

    @property
    def fixed_rate(self) -> float | None:
        """Bytes per second when a number was asked for; None for `auto` and `none`."""
        if self.throttle in ("auto", "none"):
            return None
        try:
            rate = float(self.throttle)
        except ValueError:
            rate = -1.0
        if not 0 < rate < float("inf"):
            raise SettingsError(
                f"execution.throttle is {self.throttle!r}: write auto, none, or bytes per second like "
                "20000000"
            )
        return rate

    def backoff(self, attempts: int) -> float:
        """Seconds to wait after that many attempts in vain."""
        return float(min(self.backoff_maximum_seconds, self.backoff_seconds * 2 ** max(0, attempts - 1)))
