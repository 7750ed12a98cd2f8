"""Pulsar's admin API, a method a call, on an own thin client (there is no Python one that knows brokers).

Paths and answers are those of Pulsar 4.0 and 4.2, `org.apache.pulsar.broker.admin.v2` and
`org.apache.pulsar.broker.lookup.v2`.
"""

from __future__ import annotations

from trimtab.connect.pulsar_changes import PulsarChangeCalls
from trimtab.connect.pulsar_errors import PulsarAdminError
from trimtab.connect.pulsar_settings import PulsarConnection

__all__ = ["PulsarAdmin", "PulsarAdminError", "PulsarConnection"]


class PulsarAdmin(PulsarChangeCalls):
    """Asks and changes one Pulsar cluster; may be used from many threads.

    Every method raises `PulsarAdminError`, and nothing else, for a request that is not answered as asked.
    """

    def __enter__(self) -> PulsarAdmin:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
