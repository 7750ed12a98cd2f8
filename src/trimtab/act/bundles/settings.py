"""The `[execution.bundles]` table of trimtab.toml, and all settings of an execution of this balancer."""

from dataclasses import dataclass, field
from typing import ClassVar

from trimtab.act.execution.settings import RetryPolicy, require_above_zero
from trimtab.model.errors import SettingsError


@dataclass(frozen=True)
class UnloadLimits:
    """Limits and time-outs of an execution of bundles.

    Attributes
    ----------
    max_unloads_per_batch
        Maximum number of unloads between two checks of the cluster's health.
    batch_pause_seconds
        Pause after a batch that disconnected clients.
    max_sessions_per_minute
        Maximum number of producers and consumers disconnected in any minute. A bundle with more is unloaded
        alone, after a minute without unloads.
    assign_after_seconds
        Time without an owner after which trimtab looks the bundle up, so that a bundle without clients gets
        an owner.
    owner_timeout_seconds
        Time without an owner after which the bundle is unloaded again.
    session_timeout_seconds
        Time until Pulsar detects a dead broker (`metadataStoreSessionTimeoutMillis`).
    external_change_cooldown_seconds
        Pause before new steps after another tool has moved a bundle (Pulsar sheds once a minute).
    check_load
        Whether brokers are queried for the traffic of their bundles between batches. Unloads that are no
        longer needed, or that would lift the destination above its limit, are skipped.
    """

    max_unloads_per_batch: int = 4
    batch_pause_seconds: float = 1.0
    max_sessions_per_minute: int = 5000
    assign_after_seconds: float = 1.0
    owner_timeout_seconds: float = 30.0
    session_timeout_seconds: float = 30.0
    external_change_cooldown_seconds: float = 75.0
    check_load: bool = True

    def __post_init__(self) -> None:
        """Refuse values that no execution could work with."""
        names = ("max_unloads_per_batch", "max_sessions_per_minute", "owner_timeout_seconds")
        require_above_zero(self, "execution.bundles", *names)
        for name in (
            "batch_pause_seconds",
            "assign_after_seconds",
            "session_timeout_seconds",
            "external_change_cooldown_seconds",
        ):
            if getattr(self, name) < 0:
                raise SettingsError(
                    f"execution.bundles.{name} is {getattr(self, name)}: it must be 0 or above"
                )


@dataclass(frozen=True)
class UnloadSettings(RetryPolicy):
    """The settings of an execution of bundles: the shared keys of `[execution]`, and its own pace."""

    table: ClassVar[str] = "bundles"

    limits: UnloadLimits = field(default_factory=UnloadLimits)
