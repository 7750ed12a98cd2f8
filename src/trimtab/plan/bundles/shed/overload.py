"""`OverloadShedder`: brokers above a fixed share of their capacity give up their busiest bundles."""

from dataclasses import dataclass

import numpy as np

from trimtab.plan.bundles.decision import Decision, Shedder
from trimtab.plan.bundles.options import Options
from trimtab.plan.bundles.shed.selection import busiest_until
from trimtab.plan.bundles.view import LoadView

MARGIN = 0.05
"""How far below the threshold a broker is to end."""


@dataclass(frozen=True)
class OverloadState:
    """It remembers nothing."""


def decide(
    view: LoadView, state: OverloadState, options: Options, chance: np.random.Generator
) -> tuple[Decision, OverloadState]:
    """What `OverloadShedder.findBundlesForUnloading` decides; nothing is left to chance.

    A broker is overloaded on the threshold and above. Its usage is that of its most used resource, each with
    its weight (`getMaxResourceUsageWithWeight`, since 4.0 by PIP-358; before it all counted alike).

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.impl.OverloadShedder`, which are alike.
    """
    threshold = options.broker_overloaded_threshold_percentage / 100.0
    brokers: dict[str, dict[str, object]] = {}
    unloads: dict[str, tuple[str, ...]] = {}
    for name, report in view.reports.items():
        usage = report.weighted_usage(options.weights)
        numbers = brokers[name] = {"usage": usage}
        if usage < threshold:
            continue
        need = (report.msg_throughput_in + report.msg_throughput_out) * (usage - threshold + MARGIN)
        numbers["bytes_per_second_needed"] = need
        if len(report.bundles) <= 1:
            numbers["outcome"] = (
                "its sole bundle overloads it" if report.bundles else "overloaded without any bundle"
            )
            continue
        chosen, numbers["bytes_per_second_taken"] = busiest_until(view, report.bundles, need)
        if chosen:
            unloads[name] = chosen
        else:
            numbers["outcome"] = "no bundle may be unloaded now"
    return Decision(unloads, why={"threshold": threshold, "brokers": brokers}), state


class OverloadShedder(Shedder[OverloadState]):
    """Its decision, and what it remembers at first: nothing."""

    def __init__(self) -> None:
        super().__init__(decide, OverloadState())
