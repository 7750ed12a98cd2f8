"""Claims in a Kafka cluster: all of its levels leave them in the same place."""

from collections.abc import Collection
from typing import Final

from trimtab.act.execution.port import PortError
from trimtab.systems.kafka.calls import AdminCalls

CLAIM: Final = "trimtab.lease."


class BrokerConfigClaims:
    """Claims as settings of all brokers, see `ClaimPort`; for ports to inherit, by their `_calls`."""

    claim_rights = "grant AlterConfigs and DescribeConfigs on the cluster"
    _calls: AdminCalls

    def read_claims(self) -> frozenset[str]:
        """See `ClaimPort.read_claims`."""
        # Kafka never shows the value of a setting that it does not know (it might be a secret), only the
        # name: so the name carries the text.
        return frozenset(
            name.removeprefix(CLAIM)
            for name in self._calls.settings_of_all_brokers()
            if name.startswith(CLAIM)
        )

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """See `ClaimPort.write_claims`."""
        changes: dict[str, str | None] = {CLAIM + text: None for text in removed}
        changes |= {CLAIM + text: "held" for text in added}
        if not changes:
            return
        for failure in self._calls.change_settings(changes).values():
            raise PortError(failure)
