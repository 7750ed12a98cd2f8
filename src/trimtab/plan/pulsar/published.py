"""The load that each broker publishes under the extensible load manager (`BrokerLoadData`)."""

from collections.abc import Mapping
from dataclasses import dataclass

from trimtab.plan.pulsar.options import Options
from trimtab.plan.pulsar.view import LoadView


@dataclass(frozen=True)
class PublishedLoad:
    """Running means that a broker makes of its own reports, one sample a report.

    Attributes
    ----------
    weighted_max_ema
        Of its most used resource, as a fraction; heap memory counts with its weight here.
    msg_throughput_ema
        Of its traffic, bytes per second, in and out.
    updated_at
        When the newest report was made, seconds since 1970.
    """

    weighted_max_ema: float
    msg_throughput_ema: float
    updated_at: float


def publish(
    view: LoadView, before: Mapping[str, PublishedLoad], options: Options
) -> dict[str, PublishedLoad]:
    """The loads that brokers of the view have published, once new reports were taken into the means.

    A broker that comes back after it was away begins anew, as its process does.

    Parameters
    ----------
    view
        Gives the newest report of each broker and when it was made; one as old as the last known is not new.
    before
        What was known last.

    Returns
    -------
    dict of str to PublishedLoad
        In the order of the view.

    References
    ----------
    Pulsar 4.0.7 and 4.2.4, `org.apache.pulsar.broker.loadbalance.extensions.data.BrokerLoadData`. The mean is
    `old * 0.9 + (1 - 0.9) * new` in doubles: not the same number as with a factor of 0.1.
    """
    history = options.history_resource_percentage
    after: dict[str, PublishedLoad] = {}
    for name, load in view.brokers.items():
        made = view.at if load.updated_at is None else load.updated_at
        known = before.get(name)
        if known is not None and known.updated_at == made:
            after[name] = known
            continue
        usage = load.report.weighted_usage(options.extensible_weights)
        throughput = load.report.msg_throughput_in + load.report.msg_throughput_out
        if known is not None:
            usage = known.weighted_max_ema * history + (1 - history) * usage
            throughput = known.msg_throughput_ema * history + (1 - history) * throughput
        after[name] = PublishedLoad(usage, throughput, made)
    return after
