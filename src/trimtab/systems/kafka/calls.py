"""Calls by kafka-python's admin client: what it lacks, dynamic settings, claims, failures as `PortError`.

Three calls go past the client's public methods, because those cannot say what is needed: reassignments
that must not change the replication factor, but where that is meant (KIP-860), dynamic settings of the
cluster-wide default (the broker resource with the empty name), and errors per partition instead of one
exception. All balancers leave their claims in the same place of a cluster.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from trimtab.act.execution.port import Failure, PortError
from trimtab.act.replicas.port import OwnRates

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
RATES: Final = (LEADER_RATE, FOLLOWER_RATE)
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"
CORDONED: Final = "cordoned.log.dirs"
MIN_IN_SYNC: Final = "min.insync.replicas"

Change = Mapping[str, str | None]
"""Name of a setting -> its new value; None takes it away."""

RECONNECT_SECONDS: Final = 0.5
"""Longer than the first pauses of the client between two connections to a broker."""

_T = TypeVar("_T")


class AdminCalls:
    """One connected admin client, asked so that its weaknesses do not show.

    Parameters
    ----------
    admin
        A `kafka.KafkaAdminClient`.
    """

    def __init__(self, admin: KafkaAdminClient) -> None:
        self.admin = admin

    def __call__(self, call: Callable[[], _T]) -> _T:
        """The answer to a call; every failure of the client as a `PortError`."""
        from kafka.errors import KafkaError, NodeNotReadyError, UnknownBrokerIdError

        try:
            try:
                return call()
            except NodeNotReadyError:
                # The client pauses before it connects to a broker again, and has sent nothing.
                time.sleep(RECONNECT_SECONDS)
                return call()
            except UnknownBrokerIdError:
                # The broker came back after the client last looked who there is, which may be minutes ago.
                # Nothing has been changed: the request that changes something is the one that was not sent.
                self.admin._manager.run(self.admin._manager.cluster.refresh_metadata)
                return call()
        except (KafkaError, OSError) as error:
            # The client keeps asking the node it once took for the controller, dead or not.
            self.admin._controller_id = None
            raise PortError(failure_of(type(error), str(error))) from error
        except RuntimeError as error:
            self.admin._controller_id = None
            if "controller" in str(error):
                raise PortError(Failure("NotController", str(error), transient=True)) from error
            # The client's network thread has ended; a new process, with a new client, may do better.
            raise PortError(Failure("Client", str(error))) from error

    def send_to_any(self, request: object) -> Any:
        """The answer of any broker to a request of the protocol."""

        async def send() -> Any:
            return await self.admin._manager.send(request)

        return self(lambda: self.admin._manager.run(send))

    def send_to_controller(self, request: object, top_level_errors: Callable[[Any], Iterable[Any]]) -> Any:
        """The controller's answer to a request of the protocol."""

        async def send() -> Any:
            return await self.admin._send_request_to_controller(request, top_level_errors)

        return self(lambda: self.admin._manager.run(send))

    def settings_of_all_brokers(self) -> dict[str, str | None]:
        """Dynamic settings of the cluster-wide default, those that are set."""
        from kafka.admin import ConfigResource, ConfigResourceType

        found = self._describe([ConfigResource(ConfigResourceType.BROKER, "")], [""])
        return {name: value for name, (value, _) in found[""].items()}

    def own_rates(self, brokers: Collection[int]) -> OwnRates:
        """Throttle rates set on individual brokers."""
        from kafka.admin import ConfigResource, ConfigResourceType
        from kafka.errors import KafkaError

        found: dict[int, dict[str, float]] = {}
        for broker in sorted(brokers):
            resource = ConfigResource(ConfigResourceType.BROKER, str(broker), list(RATES))
            try:
                settings = self.admin.describe_configs([resource])["broker"][str(broker)]
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

    def cordons(self, brokers: Collection[int]) -> dict[int, str | None]:
        """`cordoned.log.dirs` set on individual brokers; None where unset."""
        from kafka.admin import ConfigResource, ConfigResourceType

        found: dict[int, str | None] = {}
        for broker in sorted(brokers):
            resource = ConfigResource(ConfigResourceType.BROKER, str(broker), [CORDONED])
            # Without the filter the client leaves out settings that have their default.
            ask = partial(self.admin.describe_configs, [resource], config_filter="all")
            setting = self(ask)["broker"][str(broker)].get(CORDONED)
            if setting is not None:
                own = setting["config_source"] == "DYNAMIC_BROKER_CONFIG"
                found[broker] = setting["value"] if own else None
        return found

    def settings_of_topics(
        self, topics: list[str], names: list[str]
    ) -> dict[str, dict[str, tuple[str | None, bool]]]:
        """Topic -> name -> (value, whether it is inherited rather than the topic's own)."""
        from kafka.admin import ConfigResource, ConfigResourceType

        if not topics:
            return {}
        resources = [ConfigResource(ConfigResourceType.TOPIC, topic, names) for topic in topics]
        return self._describe(resources, topics)

    def _describe(
        self, resources: list[object], names: Iterable[str]
    ) -> dict[str, dict[str, tuple[str | None, bool]]]:
        from kafka import errors
        from kafka.admin import ConfigSourceType

        request = self.admin._describe_configs_request(resources)
        response = self.send_to_any(request)
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

    def change_settings(
        self, all_brokers: Change, topics: Mapping[str, Change] | None = None
    ) -> dict[str, Failure]:
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
        response = self.send_to_any(self.admin._alter_configs_request(resources, False, True))
        answers = {r.resource_name: answer_of(r.error_code, r.error_message) for r in response.responses}
        return {name: failure for name, failure in answers.items() if failure is not None}

    def change_setting_of_broker(self, broker: int, change: Change) -> Failure | None:
        """One request to the broker itself, which alone takes changes of its own settings."""
        from kafka.admin import ConfigResource, ConfigResourceType

        resource = ConfigResource(ConfigResourceType.BROKER, str(broker), _operations(change))
        request = self.admin._alter_configs_request([resource], False, True)

        async def send() -> Any:
            return await self.admin._manager.send(request, node_id=broker)

        try:
            (answer,) = self(lambda: self.admin._manager.run(send)).responses
        except PortError as error:
            return error.failure
        return answer_of(answer.error_code, answer.error_message)


def answer_of(code: int, message: str | None) -> Failure | None:
    """A code of the protocol: None where it says that all is well."""
    from kafka import errors

    error = errors.for_code(code)
    if error is errors.NoError:
        return None
    return failure_of(error, message or "")


def failure_of(error: type, message: str) -> Failure:
    """An error of the client, told apart by whether another try may help."""
    from kafka.errors import UnknownBrokerIdError

    code = error.__name__.removesuffix("Error")
    text = message or (error.__doc__ or "").strip().split("\n")[0]
    # A broker that the client does not know is one that comes or goes.
    transient = issubclass(error, OSError | UnknownBrokerIdError) or bool(getattr(error, "retriable", False))
    return Failure(code, text, transient)


def _operations(change: Change) -> dict[str, object]:
    from kafka.admin import AlterConfigOp

    return {
        name: (AlterConfigOp.DELETE, None) if value is None else (AlterConfigOp.SET, value)
        for name, value in change.items()
    }


CLAIM: Final = "trimtab.lease."


class BrokerConfigClaims:
    """Claims as settings of all brokers, see `ClaimPort`; for ports to inherit, by their `_calls`."""

    claim_rights = "grant AlterConfigs and DescribeConfigs on the cluster"
    _calls: AdminCalls

    def read_claims(self) -> frozenset[str]:
        """Read the claims of all trimtabs in this cluster."""
        # Kafka never shows the value of a setting that it does not know (it might be a secret), only the
        # name: so the name carries the text.
        return frozenset(
            name.removeprefix(CLAIM)
            for name in self._calls.settings_of_all_brokers()
            if name.startswith(CLAIM)
        )

    def write_claims(self, added: Collection[str], removed: Collection[str]) -> None:
        """Add and remove claims in one change."""
        changes: dict[str, str | None] = {CLAIM + text: None for text in removed}
        changes |= {CLAIM + text: "held" for text in added}
        if not changes:
            return
        for failure in self._calls.change_settings(changes).values():
            raise PortError(failure)
