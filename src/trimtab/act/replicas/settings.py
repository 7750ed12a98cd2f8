"""The `[execution]` table of trimtab.toml: how carefully a plan is carried out."""

from dataclasses import dataclass

from trimtab.act.execution.settings import RetryPolicy, require_above_zero
from trimtab.model.errors import SettingsError


@dataclass(frozen=True)
class ReplicasExecutionSettings(RetryPolicy):
    """Limits, retries and time-outs of an execution; the defaults suit a busy cluster.

    Attributes
    ----------
    throttle
        `auto`: the brokers' free network capacity, or `throttle_initial_bytes_per_second` if unknown, adapted
        while copies run; `none`; or bytes per second.
    throttle_initial_bytes_per_second
        Initial rate of `auto` if the free network capacity is unknown.
    throttle_min_bytes_per_second
        Lowest rate of `auto`.
    throttle_headroom_fraction
        Share of a broker's free network capacity for copies.
    initial_copies_per_broker
        Initial number of concurrent copies per broker, as source or destination. It rises by one after each
        batch of copies without problems, and is halved after a problem.
    max_copies_per_broker
        Maximum number of concurrent copies per broker.
    max_copies_per_cluster
        Maximum number of partitions copied at once.
    max_leaders_per_batch
        Maximum number of leader moves between two checks of the whole cluster.
    disk_reserve_fraction
        Share of a log dir that must be free after all copies of a batch.
    skip_unneeded
        Whether steps are skipped that newer samples show to be unneeded.
    cordon_drained
        Whether drained brokers are cordoned before the first batch, if Kafka supports it.
    stall_timeout_seconds
        Time without progress after which a copy is rolled back.
    external_change_timeout_seconds
        Time to wait for another tool's reassignment before the execution stops.
    unhealthy_timeout_seconds
        Time to wait for the recovery of offline or under-min-ISR partitions before the execution stops.
    in_sync_timeout_seconds
        Time that a leader move waits for its replica to be in sync before it is skipped.
    settle_seconds
        Maximum lag of a broker's metadata behind the controller.
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
