"""What decisions see of a snapshot: brokers, the worst deviation, and how much of the load is known."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.replica_clusters import broker, partition, snapshot
from trimtab.decide.loads import observed_of as observed_of_any
from trimtab.decide.replicas import observed_of
from trimtab.model.documents import Quality
from trimtab.model.replicas.settings import ReplicasSettings
from trimtab.model.replicas.snapshot import ReplicasSnapshot

BROKERS = [broker(number, f"r{number}") for number in (1, 2, 3)]
SETTINGS = ReplicasSettings()


def two_partitions(**quality: object) -> ReplicasSnapshot:
    """Broker 1 leads both partitions; `quality` are further facts of the snapshot."""
    found = snapshot(BROKERS, [partition("t", 0, [1, 2]), partition("t", 1, [1, 3])])
    return replace(found, quality=Quality(valid_share=0.5, extra=tuple(quality.items())))


@pytest.mark.parametrize(("unknown", "coverage"), [(0, 1.0), (1, 0.5), (2, 0.0)])
def test_coverage_is_the_share_of_partitions_with_a_known_load(unknown: int, coverage: float) -> None:
    """Estimated loads count as known: retention makes them last."""
    found = observed_of(two_partitions(x_partitions_without_rates=unknown), SETTINGS, 7.0)
    assert found.coverage == coverage


def test_coverage_is_the_valid_share_without_a_count_of_partitions() -> None:
    """A snapshot of an older or another pipeline says less."""
    assert observed_of(two_partitions(), SETTINGS, 7.0).coverage == 0.5


def test_both_views_of_a_snapshot_agree_on_the_worst_broker() -> None:
    """The view of any balancer, and the one that knows replicas, see the same load."""
    one = observed_of(two_partitions(), SETTINGS, 7.0)
    other = observed_of_any(two_partitions(), SETTINGS, 7.0)
    assert (other.worst_broker, other.worst_resource, other.worst_deviation) == (
        one.worst_broker,
        one.worst_resource,
        one.worst_deviation,
    )
    assert one.worst_broker == "1"
    assert other.limits == one.limits


def test_a_limit_that_a_broker_exceeds_is_named() -> None:
    """The busiest broker, its use and the limit, for any balancer."""
    crowded = snapshot(BROKERS, [partition("t", 0, [1, 2], load=(9.0, 1.0, 1.0, 1.0))])
    found = observed_of_any(crowded, SETTINGS, 7.0)
    assert [(one.broker, one.resource, one.value, one.limit) for one in found.broken_limits] == [
        ("1", "cpu", 0.9, 0.8)
    ]
    assert found.broken_limits == observed_of(crowded, SETTINGS, 7.0).broken_limits
