"""What is said of throttles that others have set before us."""

import time
from collections.abc import Iterator

import pytest
from kafka.admin import KafkaAdminClient

from simulate.kafka.cluster import cluster_of
from simulate.kafka.server import SimulatedKafkaServer
from simulate.kafka.state import WHOLE_CLUSTER, ConfigOperation, ResourceType
from trimtab.act.replicas.overrides import warnings
from trimtab.act.replicas.port import ThrottleConfig
from trimtab.systems.kafka.calls import RATES
from trimtab.systems.kafka.port import KafkaAdminPort

LEADER, FOLLOWER = RATES
NONE = ThrottleConfig()


@pytest.fixture
def server() -> Iterator[SimulatedKafkaServer]:
    """Three brokers, of which 2 has a rate of its own, and a rate for all."""
    cluster = cluster_of(3)
    own = [(FOLLOWER, ConfigOperation.SET, "3000000")]
    cluster.controller.alter_configs(ResourceType.BROKER, "2", own)
    for_all = [(LEADER, ConfigOperation.SET, "7000000")]
    cluster.controller.alter_configs(ResourceType.BROKER, WHOLE_CLUSTER, for_all)
    with SimulatedKafkaServer(cluster) as running:
        yield running


def test_only_a_brokers_own_rates_count_as_its_own(server: SimulatedKafkaServer) -> None:
    """A rate for all brokers also appears in each broker's settings, and is not its own."""
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap, request_timeout_ms=5000)
    assert KafkaAdminPort(admin, time.time).own_rates([1, 2, 3]) == {2: {FOLLOWER: 3e6}}
    admin.close()


def test_a_broker_that_does_not_answer_is_left_out(server: SimulatedKafkaServer) -> None:
    """It throttles no broker; the others are still reported."""
    server.do(lambda cluster: cluster.kill_broker(1))
    admin = KafkaAdminClient(bootstrap_servers=server.bootstrap, request_timeout_ms=2000)
    assert KafkaAdminPort(admin, time.time).own_rates([1, 2]) == {2: {FOLLOWER: 3e6}}
    admin.close()


def test_replacing_a_lower_rate_for_all_brokers_is_reported_with_the_remedy() -> None:
    """Our rate replaces it temporarily; the report names the setting that keeps it."""
    (text,) = warnings(50e6, ThrottleConfig("5000000", None), {})
    assert "a throttle of 5 MB/s is set for all brokers, lower than ours of 50 MB/s" in text
    assert "then theirs is put back; keep to it with --throttle 5000000" in text


@pytest.mark.parametrize("ours", [None, 5e6, 1e6])
def test_a_rate_for_all_brokers_that_is_not_lower_is_no_news(ours: float | None) -> None:
    """Nothing goes faster than its operator allowed."""
    assert warnings(ours, ThrottleConfig("5000000", "9000000"), {}) == []


@pytest.mark.parametrize(
    ("rate", "ours", "words"),
    [
        (
            1e6,
            20e6,
            ["= 1 MB/s, lower than ours of 20 MB/s", "go no faster", "remove it if it was forgotten"],
        ),
        (90e6, 20e6, ["= 90 MB/s, higher than ours of 20 MB/s", "are not held to ours"]),
        (1e6, None, ["= 1 MB/s: Kafka prefers it", "may hold copies back"]),
    ],
)
def test_a_brokers_own_rate_is_reported(rate: float, ours: float | None, words: list[str]) -> None:
    """Lower or higher: our rate does not apply there."""
    (text,) = warnings(ours, NONE, {4: {FOLLOWER: rate}})
    assert text.startswith(f"broker 4 has a throttle of its own, {FOLLOWER} ")
    for word in words:
        assert word in text


def test_a_brokers_own_rate_equal_to_the_new_one_is_not_reported() -> None:
    """Nothing changes by it."""
    assert warnings(20e6, NONE, {4: {FOLLOWER: 20e6}}) == []
