"""What a client's own settings may not be, since order rests on it."""

import pytest

from trimtab.dataplane.keys.promises import kept_by_consumer, kept_by_producer
from trimtab.dataplane.keys.settings import Following
from trimtab.model.errors import SettingsError
from trimtab.online.keys.order.settings import Guarding

FOLLOWING = Following({}, guarding=Guarding(delivery_seconds=10, gap_seconds=12))


@pytest.mark.parametrize("acks", ["all", -1, "-1"])
@pytest.mark.parametrize("idempotent", [True, "true"])
def test_a_producer_that_keeps_its_promises_is_taken(acks: object, idempotent: object) -> None:
    """In the words of each client; a delivery time-out may be as long as is said, and shorter."""
    for delivery_ms in (1.0, 10_000.0):
        kept_by_producer(acks, idempotent, delivery_ms, FOLLOWING)


@pytest.mark.parametrize(
    ("acks", "idempotent", "delivery_ms", "told"),
    [
        (1, True, 1000, "acks is 1, expected 'all'"),
        (0, True, 1000, "acks is 0, expected 'all'"),
        ("1", "true", 1000, "acks is '1', expected 'all'"),
        ("all", False, 1000, "idempotence is off, expected on"),
        ("all", "false", 1000, "idempotence is off, expected on"),
        ("all", True, 10_001, "the delivery time-out is 10.001 s, expected 10 s .delivery_seconds. or less"),
    ],
)
def test_a_producer_that_does_not_is_refused(
    acks: object, idempotent: object, delivery_ms: float, told: str
) -> None:
    """With the setting, what it is, and what it must be."""
    with pytest.raises(SettingsError, match=f"^{told}"):
        kept_by_producer(acks, idempotent, delivery_ms, FOLLOWING)


@pytest.mark.parametrize("auto_commit", [False, "false"])
@pytest.mark.parametrize("reset", ["earliest", "smallest", "beginning"])
def test_a_consumer_that_keeps_its_promises_is_taken(auto_commit: object, reset: object) -> None:
    """In the words of each client."""
    kept_by_consumer(auto_commit, reset)


@pytest.mark.parametrize(
    ("auto_commit", "reset", "told"),
    [
        (True, "earliest", "auto-commit is on, expected off"),
        ("true", "earliest", "auto-commit is on, expected off"),
        (False, "latest", "auto.offset.reset is 'latest', expected 'earliest'"),
        (False, "none", "auto.offset.reset is 'none', expected 'earliest'"),
    ],
)
def test_a_consumer_that_does_not_is_refused(auto_commit: object, reset: object, told: str) -> None:
    """Commits would say too much, or records be skipped silently."""
    with pytest.raises(SettingsError, match=f"^{told}"):
        kept_by_consumer(auto_commit, reset)
