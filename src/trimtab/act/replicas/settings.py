"""The `[execution]` table of trimtab.toml: how carefully a plan is carried out."""

from dataclasses import dataclass

from trimtab.act.execution.settings import RetryPolicy, require_above_zero
from trimtab.model.errors import SettingsError


@dataclass(frozen=True)
class ReplicasExecutionSettings(RetryPolicy):
    """Limits, patience and pace of an execution; every key has a default that suits a busy cluster.

    Attributes
    ----------
    throttle
        `auto` (what the brokers' networks have left, else `throttle_initial_bytes_per_second`, then adapted
        while running), `none`, or bytes per second.
    throttle_initial_bytes_per_second
        Rate that `auto` begins with where no head-room is known.
    throttle_min_bytes_per_second
        Lowest rate that `auto` goes down to.
    throttle_headroom_fraction
        Share of a broker's free network that copies may take.
    initial_copies_per_broker
        How many copies a broker may take part in at once at first, as source or as destination; one more
        after every quiet batch of copies, half as many after trouble.
    max_copies_per_broker
        How many copies a broker may take part in at once at most.
    max_copies_per_cluster
        How many partitions may be copied at once.
    max_leaders_per_batch
        How many leaderships are moved between two looks at the whole cluster.
    disk_reserve_fraction
        Share of a log dir that must stay free when all copies of a batch have arrived.
    skip_unneeded
        Whether steps that later telemetry shows to be no longer needed are dropped.
    cordon_drained
        Whether brokers that the plan drains are cordoned before the first batch, where Kafka supports it.
    stall_timeout_seconds
        How long a copy may make no progress before it is rolled back.
    external_change_timeout_seconds
        How long to wait for another tool's reassignment to end before stopping.
    unhealthy_timeout_seconds
        How long to wait for offline or under-min-ISR partitions to recover before stopping.
    in_sync_timeout_seconds
        How long a leadership move waits for its replica to be in sync before it is skipped.
    settle_seconds
        How long a broker's metadata may lag the controller.
    """

    throttle: str | float = "auto"
    throttle_initial_bytes_per_second: float = 50_000_000.0
    throttle_min_bytes_per_second: float = 1_000_000.0
    throttle_headroom_fraction: float = 0.5
    initial_copies_per_broker: int = 5
    max_copies_per_broker: int = 20
    max_copies_per_cluster: int = 100
    max_leaders_per_batch: int = 500
    disk_reserve_fraction: float = 0.05
    skip_unneeded: bool = True
    cordon_drained: bool = True
    stall_timeout_seconds: float = 300.0
    in_sync_timeout_seconds: float = 60.0

    def __post_init__(self) -> None:
        """Refuse values that no execution could work with."""
        self.fixed_rate  # noqa: B018 - reading it checks the form of `throttle`
        super().__post_init__()
        require_above_zero(
            self,
            "execution",
            "throttle_initial_bytes_per_second",
            "throttle_min_bytes_per_second",
            "initial_copies_per_broker",
            "max_copies_per_broker",
            "max_copies_per_cluster",
            "max_leaders_per_batch",
        )
        for name in ("throttle_headroom_fraction", "disk_reserve_fraction"):
            if not 0 <= getattr(self, name) < 1:
                raise SettingsError(f"execution.{name} is {getattr(self, name)}: it must be 0 to below 1")

    @property
    def follows_headroom(self) -> bool:
        """Whether the throttle follows what the brokers' networks have left."""
        return self.throttle == "auto"

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
