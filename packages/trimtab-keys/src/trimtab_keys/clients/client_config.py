"""What order rests on among a client's own settings."""

from __future__ import annotations

from trimtab_common.errors import SettingsError
from trimtab_keys.clients.settings import RoutingConfig


def check_producer_config(
    acks: object,
    idempotent: object,
    delivery_ms: float,
    transaction: object,
    partitioner: str | None,
    following: RoutingConfig,
) -> None:
    """Refuse settings of a producer under which the protocol promises nothing.

    Parameters
    ----------
    acks, idempotent, delivery_ms
        As the client has them.
    transaction
        Its `transactional_id`; None for a producer without transactions.
    partitioner
        Of a client that places keys by another hash than the Java client's murmur2: its name.
    following
        Where tables are.

    Raises
    ------
    SettingsError
        With the setting, what it is and what it must be.
    """
    if transaction is not None:
        raise SettingsError(
            f"transactional_id is {transaction!r}, expected none: consumers would wait gap_seconds for the "
            "records that an aborted transaction took back; leave it out, or send this topic's records in "
            "transactions by the client's own producer and publish no routing table for it"
        )
    if partitioner is not None:
        raise SettingsError(
            f"partitioner is {partitioner}, expected murmur2_random with confluent-kafka and the client's "
            "default with kafka-python and aiokafka: this producer places keys by the Java client's murmur2, "
            "so nearly all keys would change their partition at once and overtake older records; set it "
            "for a new topic, or once consumers have read all that was sent by the other partitioner"
        )
    if acks not in ("all", -1, "-1"):
        raise SettingsError(f"acks is {acks!r}, expected 'all': what only a leader has may be lost with it")
    if idempotent in (False, None, "false"):
        raise SettingsError(
            "idempotence is off, expected on: a batch that is appended twice would stand behind itself"
        )
    limit = following.ordering.delivery_seconds
    if delivery_ms > limit * 1000:
        raise SettingsError(
            f"the delivery time-out is {delivery_ms / 1000:g} s, expected {limit:g} s (delivery_seconds) or "
            "less: a record that comes later would be taken for lost; lower it, or raise that"
        )


def check_consumer_config(auto_commit: object, reset: object) -> None:
    """Refuse settings of a consumer under which records are lost, or commits say too much.

    Raises
    ------
    SettingsError
        With the setting, what it is and what it must be.
    """
    if auto_commit not in (False, "false"):
        raise SettingsError("auto-commit is on, expected off: what is committed must have taken effect")
    if reset not in ("earliest", "smallest", "beginning"):
        raise SettingsError(
            f"auto.offset.reset is {reset!r}, expected 'earliest': records written to a new partition before "
            "the consumer learns of it would be skipped silently"
        )
