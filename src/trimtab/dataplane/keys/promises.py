"""What order rests on among a client's own settings."""

from __future__ import annotations

from trimtab.dataplane.keys.settings import Following
from trimtab.model.errors import SettingsError


def kept_by_producer(acks: object, idempotent: object, delivery_ms: float, following: Following) -> None:
    """Refuse settings of a producer under which the protocol promises nothing.

    Raises
    ------
    SettingsError
        With the setting, what it is and what it must be.
    """
    if acks not in ("all", -1, "-1"):
        raise SettingsError(f"acks is {acks!r}, expected 'all': what only a leader has may be lost with it")
    if idempotent in (False, "false"):
        raise SettingsError(
            "idempotence is off, expected on: a batch that is appended twice would stand behind itself"
        )
    limit = following.guarding.delivery_seconds
    if delivery_ms > limit * 1000:
        raise SettingsError(
            f"the delivery time-out is {delivery_ms / 1000:g} s, expected {limit:g} s (delivery_seconds) or "
            "less: a record that comes later would be taken for lost; lower it, or raise that"
        )


def kept_by_consumer(auto_commit: object, reset: object) -> None:
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
