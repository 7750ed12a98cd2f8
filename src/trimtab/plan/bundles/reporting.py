"""When a broker writes its load report anew: enough has changed, or enough time has gone by."""

import math

from trimtab.model.bundles import BrokerReport
from trimtab.plan.bundles.options import Options

EXTENSIBLE_WEIGHTS = (1.0, 0.0, 1.0, 1.0, 1.0)
"""The extensible manager's reporter weighs all resources alike, but for heap memory, which it passes over."""


def report_due(
    last: BrokerReport,
    now: BrokerReport,
    since_seconds: float,
    options: Options,
    *,
    extensible: bool = False,
) -> str | None:
    """Why a broker's report is written, or None if it is not (`needBrokerDataUpdate`).

    Asked every `loadBalancerReportUpdateMinIntervalMillis`. Usage is compared in points, all else in percent
    of what was written last; from nothing to something is more than any percentage.

    Parameters
    ----------
    last, now
        What was written last, and what would be written.
    since_seconds
        Since it was written; to the millisecond, as in Pulsar.
    extensible
        Under which load manager.

    Returns
    -------
    str or None
        What has changed most, or that it has been long.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.impl.ModularLoadManagerImpl`, where usage is
    that of the most used resource, each with its weight, and
    `org.apache.pulsar.broker.loadbalance.extensions.reporter.BrokerLoadDataReporter`.
    """
    if round(since_seconds * 1000) > options.report_update_max_interval_minutes * 60 * 1000:
        return "the longest interval is over"
    weights = EXTENSIBLE_WEIGHTS if extensible else options.weights
    usages = [one.weighted_usage(weights) for one in (last, now)]
    change = {
        "usage": 100.0 * abs(usages[0] - usages[1]),
        "message rate": percent_change(
            last.msg_rate_in + last.msg_rate_out, now.msg_rate_in + now.msg_rate_out
        ),
        "throughput": percent_change(
            last.msg_throughput_in + last.msg_throughput_out, now.msg_throughput_in + now.msg_throughput_out
        ),
        "bundles": percent_change(len(last.last_stats), len(now.last_stats)),
    }
    most = max(change, key=lambda name: change[name])
    return most if change[most] > options.report_update_threshold_percentage else None


def percent_change(old: float, new: float) -> float:
    """By how much a number differs from an earlier one, in percent of that."""
    if old == 0:
        return 0.0 if new == 0 else math.inf
    return 100 * abs((old - new) / old)
