"""An admin client for a whole execution: it outlives the broker that it was given the address of."""

from contextlib import suppress
from dataclasses import replace

from trimtab.connect.pulsar import PulsarAdmin, PulsarAdminError, PulsarConnection


def admin_of(connection: PulsarConnection) -> PulsarAdmin:
    """A client that asks any of the cluster's brokers, those that were named first.

    Who names one broker, and moves bundles off it before it is stopped, would be cut off half way.

    Raises
    ------
    PulsarAdminError
        If no broker that was named answers.
    """
    with PulsarAdmin(connection) as first:
        urls = list(connection.admin)
        for broker in first.brokers():
            with suppress(PulsarAdminError):
                urls.append(first.web_url(broker))
    return PulsarAdmin(replace(connection, admin=tuple(dict.fromkeys(urls))))
