"""Throttles that somebody has set before us: on all brokers, or on one of them.

What is set for all brokers we replace for as long as copies are in flight, and put back. What a broker has of
its own Kafka prefers to that: we leave it alone, so it decides how fast copies through that broker are, and
whoever carries a plan out should know before.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from trimtab.act.kafka.configs import FOLLOWER_RATE, LEADER_RATE
from trimtab.act.replicas.observation import ThrottleConfig
from trimtab.act.replicas.throttle import rate_text

RATES: Final = (LEADER_RATE, FOLLOWER_RATE)

OwnRates = Mapping[int, Mapping[str, float]]
"""Broker -> name of the rate -> bytes per second, for those that a broker has of its own."""


def own_rates(admin: Any, brokers: Collection[int]) -> OwnRates:
    """The rates that these brokers have of their own.

    Parameters
    ----------
    admin
        kafka-python's admin client.
    brokers
        Each is asked itself; one that does not answer is left out: it throttles nobody.
    """
    from kafka.admin import ConfigResource, ConfigResourceType
    from kafka.errors import KafkaError

    found: dict[int, dict[str, float]] = {}
    for broker in sorted(brokers):
        resource = ConfigResource(ConfigResourceType.BROKER, str(broker), list(RATES))
        try:
            settings = admin.describe_configs([resource])["broker"][str(broker)]
        except (KafkaError, OSError):
            continue
        rates = {
            name: float(setting["value"])
            for name, setting in settings.items()
            if name in RATES and setting["config_source"] == "DYNAMIC_BROKER_CONFIG" and setting["value"]
        }
        if rates:
            found[broker] = rates
    return found


def warnings(ours: float | None, default: ThrottleConfig, own: OwnRates) -> list[str]:
    """What whoever begins an execution should know of throttles that others have set, a sentence each.

    Parameters
    ----------
    ours
        Bytes per second and broker that the execution begins with; None for no throttle.
    default
        Rates set for all brokers.
    own
        Rates of the brokers that take part.
    """
    found = []
    lowest = min((float(r) for r in (default.leader_rate, default.follower_rate) if r), default=None)
    if ours is not None and lowest is not None and lowest < ours:
        found.append(
            f"a throttle of {rate_text(lowest)} is set for all brokers, lower than ours of "
            f"{rate_text(ours)}: ours holds while copies are in flight, then theirs is put back; keep to it "
            f"with --throttle {lowest:.0f}"
        )
    for broker, rates in sorted(own.items()):
        for name, rate in sorted(rates.items()):
            if ours is None or rate < ours:
                effect = "copies through it go no faster" if ours is not None else "it may hold copies back"
            elif rate > ours:
                effect = "copies through it are not held to ours"
            else:
                continue
            than = (
                ""
                if ours is None
                else f", {'lower' if rate < ours else 'higher'} than ours of {rate_text(ours)}"
            )
            found.append(
                f"broker {broker} has a throttle of its own, {name} = {rate_text(rate)}{than}: Kafka prefers "
                f"it, so {effect}; it is left alone, remove it if it was forgotten there"
            )
    return found
