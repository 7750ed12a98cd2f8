"""What Pulsar's admin API answers, as values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Leader:
    """The broker that decides for all: its id (`host:port`) and web address."""

    broker: str
    url: str


@dataclass(frozen=True)
class OwnedBundle:
    """A bundle that a broker says it owns.

    Attributes
    ----------
    bundle
        `tenant/namespace/0xLOW_0xHIGH`.
    active
        Whether it is being served, not just about to be unloaded.
    controlled
        Whether an isolation policy ties it to this broker.
    """

    bundle: str
    active: bool = True
    controlled: bool = False


@dataclass(frozen=True)
class TopicOwner:
    """Where a topic is served.

    Attributes
    ----------
    broker
        The owner's id, `host:port` of its web service.
    web_url, service_url
        Of its web service and of its binary protocol, with TLS where we use it and it offers it.
    """

    broker: str
    web_url: str
    service_url: str


@dataclass(frozen=True)
class BundleQuota:
    """What a bundle that was never seen is taken to carry (`ResourceQuota`).

    Attributes
    ----------
    msg_rate_in, msg_rate_out
        Messages per second.
    bandwidth_in, bandwidth_out
        Bytes per second.
    memory
        MB.
    dynamic
        Whether the leader may learn better figures.
    """

    msg_rate_in: float
    msg_rate_out: float
    bandwidth_in: float
    bandwidth_out: float
    memory: float
    dynamic: bool = True
