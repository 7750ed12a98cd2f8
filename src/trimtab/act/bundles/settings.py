"""The `[execution.bundles]` table of trimtab.toml, and all settings of an execution of this balancer."""

from dataclasses import dataclass, field
from typing import ClassVar

from trimtab.act.execution.settings import RetryPolicy, require_above_zero
from trimtab.model.errors import SettingsError


@dataclass(frozen=True)
class UnloadLimits:
    """The pace of an execution of bundles: clients that it may disturb, and its patience with Pulsar.

    Attributes
    ----------
    max_unloads_per_batch
        How many bundles are unloaded between two looks at the cluster's health.
    batch_pause_seconds
        How long to let clients settle after a batch that disconnected some.
    max_sessions_per_minute
        How many producers and consumers may be disconnected in any minute; a bundle that has more by itself
        goes alone, after a minute without unloads.
    assign_after_seconds
        How long an unloaded bundle may be without an owner before a lookup of ours gives it one (no client
        asks for a bundle without clients).
    owner_timeout_seconds
        How long an unloaded bundle may be without an owner in all before it is unloaded again.
    session_timeout_seconds
        How long a dead broker is still believed in (Pulsar's `metadataStoreSessionTimeoutMillis`).
    external_change_cooldown_seconds
        How long nothing new is begun after somebody else has moved a bundle (Pulsar sheds once a minute).
    check_load
        Whether brokers are asked between batches for the traffic of their bundles, to leave out unloads that
        are no longer needed, and those that would now push their taker above its limit.
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
