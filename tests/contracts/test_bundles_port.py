"""The simulated admin API does what real brokers do; tests/integration tells them the same stories."""

from collections.abc import Callable, Iterator

import pytest

from simulate.pulsar_admin.server import PulsarAdminServer
from support.bundles_port_stories import STORIES, Stage
from trimtab.systems.pulsar.admin import PulsarAdmin
from trimtab.systems.pulsar.connection import PulsarConnection
from trimtab.systems.pulsar.port import PulsarAdminPort

NAMESPACE = "trimtab/port"


@pytest.fixture(params=["modular", "extensible"])
def stage(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Three simulated brokers on sockets, under either load manager."""
    with (
        PulsarAdminServer(3, extensible=request.param == "extensible") as server,
        PulsarAdmin(PulsarConnection(admin=server.urls)) as admin,
    ):
        server.cluster.add_namespace(NAMESPACE)

        def add_topics(number: int) -> None:
            for one in range(number):
                server.cluster.add_topic(f"persistent://{NAMESPACE}/t{one}", sessions=0)

        def wait(condition: Callable[[], bool]) -> None:
            assert any(condition() for _ in range(10))

        yield Stage(PulsarAdminPort(admin, lambda: 0.0), NAMESPACE, wait, add_topics)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_a_simulated_cluster(stage: Stage, story: Callable[[Stage], None]) -> None:
    """Each story as its own sentence has it."""
    story(stage)
