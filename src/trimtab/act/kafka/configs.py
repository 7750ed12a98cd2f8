"""Dynamic settings of a Kafka cluster: of its default for all brokers, and of topics."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from trimtab.act.execution.messages import Failure
from trimtab.act.kafka.calls import Calls, answer_of, failure_of
from trimtab.act.port import PortError
from trimtab.act.replicas.observation import OwnRates

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
MIN_IN_SYNC: Final = "min.insync.replicas"

Change = Mapping[str, str | None]
"""Name of a setting -> its new value; None takes it away."""


class Configs:
    """Reads and changes them; sees only what somebody has set.

    Parameters
    ----------
    calls
        The way to the cluster.
    """

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def of_all_brokers(self) -> dict[str, str | None]:
        """Dynamic settings of the cluster-wide default, those that are set."""
        from kafka.admin import ConfigResource, ConfigResourceType

        found = self._describe([ConfigResource(ConfigResourceType.BROKER, "")], {"": None})
        return {name: value for name, (value, _) in found[""].items()}

    def own_rates(self, brokers: Collection[int]) -> OwnRates:
        """See `ClusterPort.own_rates`."""
        from kafka.admin import ConfigResource, ConfigResourceType
        from kafka.errors import KafkaError

        found: dict[int, dict[str, float]] = {}
        for broker in sorted(brokers):
            resource = ConfigResource(ConfigResourceType.BROKER, str(broker), list(RATES))
            try:
                settings = self._calls.admin.describe_configs([resource])["broker"][str(broker)]
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

    def of_topics(self, topics: list[str], names: list[str]) -> dict[str, dict[str, tuple[str | None, bool]]]:
        """Topic -> name -> (value, whether it is inherited rather than the topic's own)."""
        from kafka.admin import ConfigResource, ConfigResourceType

        if not topics:
            return {}
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic, names) for topic in topics]
        return self._describe(resources, dict.fromkeys(topics))

    def _describe(
        self, resources: list[Any], names: Mapping[str, None]
    ) -> dict[str, dict[str, tuple[str | None, bool]]]:
        from kafka import errors
        from kafka.admin import ConfigSourceType

        request = self._calls.admin._describe_configs_request(resources)
        response = self._calls.send_to_any(request)
        found: dict[str, dict[str, tuple[str | None, bool]]] = {name: {} for name in names}
        for result in response.results:
            error = errors.for_code(result.error_code)
            if error is errors.UnknownTopicOrPartitionError:
                continue
            if error is not errors.NoError:
                raise PortError(
                    failure_of(error, result.error_message or f"settings of {result.resource_name}")
                )
            for config in result.configs:
                own = ConfigSourceType(config.config_source) in (
                    ConfigSourceType.DYNAMIC_TOPIC_CONFIG,
                    ConfigSourceType.DYNAMIC_DEFAULT_BROKER_CONFIG,
                )
                found[result.resource_name][config.name] = (config.value, not own)
        return found

    def change(self, all_brokers: Change, topics: Mapping[str, Change] | None = None) -> dict[str, Failure]:
        """One request for all; failures by topic, that of the cluster-wide default under the empty name."""
        from kafka.admin import ConfigResource, ConfigResourceType

        resources = [
            ConfigResource(ConfigResourceType.BROKER, "", _operations(all_brokers)),
            *(
                ConfigResource(ConfigResourceType.TOPIC, topic, _operations(change))
                for topic, change in sorted((topics or {}).items())
            ),
        ]
        # The client's own method insists on numbers as broker names and asks what settings exist.
        response = self._calls.send_to_any(self._calls.admin._alter_configs_request(resources, False, True))
        answers = {r.resource_name: answer_of(r.error_code, r.error_message) for r in response.responses}
        return {name: failure for name, failure in answers.items() if failure is not None}


def _operations(change: Change) -> dict[str, Any]:
    from kafka.admin import AlterConfigOp

    return {
        name: (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, value)
        for name, value in change.items()
    }
