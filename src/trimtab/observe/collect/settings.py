"""The `[collect]` table of trimtab.toml."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from trimtab.model.errors import SettingsError

USAGE = ("auto", "measured", "declared")


@dataclass(frozen=True)
class PulsarCollectSettings:
    """Settings that only Pulsar has.

    Attributes
    ----------
    usage
        Where brokers' usage comes from: `measured`, each broker's own report; `declared`, its message traffic
        over declared capacities; `auto`, measured unless several brokers of one host report the same figures,
        those of the host.
    topics
        Whether topics are sampled one by one; without them hot ones are not found.
    metrics
        Whether brokers' metrics are read where they refuse their statistics, or have told no report yet.
    """

    usage: str = "auto"
    topics: bool = True
    metrics: bool = True

    def __post_init__(self) -> None:
        """Refuse an unknown mode."""
        if self.usage not in USAGE:
            raise SettingsError(f"collect.pulsar.usage is {self.usage!r}: write one of {', '.join(USAGE)}")


@dataclass(frozen=True)
class CollectSettings:
    """Settings of the collector.

    Attributes
    ----------
    interval_seconds
        Distance of two ticks. Bytes per partition come from size growth, so keep it well below retention:
        30 to 60 s has no bias, 300 s misses 6 % of a cluster's traffic.
    timeout_seconds
        How long one broker may take for one answer; None: a third of the interval, 10 s at most.
    cluster
        Name to file the samples under; None: the id that the cluster gives itself.
    prometheus
        Where the brokers' JMX exporters are: a URL with `{host}` and `{id}`, or a table from broker id to
        address.
    hosts
        Machine of each broker, by broker id, where the address that a broker advertises does not tell it.
    groups
        Whether to read the committed offsets of consumer groups.
    client_samples
        Files of JSON lines that producers and consumers write about themselves, or glob patterns of them.
    pulsar
        The table `[collect.pulsar]`.
    """

    interval_seconds: float = 30.0
    timeout_seconds: float | None = None
    cluster: str | None = None
    prometheus: str | dict[str, str] | None = None
    hosts: dict[str, str] = field(default_factory=dict)
    groups: bool = True
    client_samples: tuple[Path, ...] = ()
    pulsar: PulsarCollectSettings = PulsarCollectSettings()

    def __post_init__(self) -> None:
        """Refuse what cannot be a schedule."""
        if not 1 <= self.interval_seconds <= 86_400:
            raise SettingsError(
                f"collect.interval_seconds is {self.interval_seconds}: "
                "write 1 to 86400 seconds, 30 to 60 is usual"
            )
        if self.timeout_seconds is not None and not 0 < self.timeout_seconds <= self.interval_seconds:
            raise SettingsError(
                f"collect.timeout_seconds is {self.timeout_seconds}: write more than 0 and at most "
                f"collect.interval_seconds ({self.interval_seconds:g}), or leave it out"
            )
        for key in self.hosts:
            if not key.isdigit():
                raise SettingsError(
                    f'collect.hosts has the key {key!r}: keys are broker ids, as in "1" = "rack3-node7"'
                )
        if self.cluster is not None and not self.cluster.strip():
            raise SettingsError(
                "collect.cluster is empty: name the cluster, or leave it out to use its own id"
            )

    @property
    def patience_seconds(self) -> float:
        """The time-out in force."""
        return min(10.0, self.interval_seconds / 3) if self.timeout_seconds is None else self.timeout_seconds
