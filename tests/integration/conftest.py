"""Real clusters for the tests of this folder, started and stopped by trimtab's own sandbox."""

import sys
from collections.abc import Iterator

import pytest

from clusters import shared
from support.keys_place import clients_ended
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.pulsar import PulsarSandbox


def _say(line: str) -> None:
    print(f"sandbox: {line}", file=sys.stderr)


@pytest.fixture(scope="session")
def six_brokers() -> Iterator[KafkaSandbox]:
    """Six brokers with metrics endpoints on three declared hosts, shared by all tests that want such.

    Tests leave it as they found it: no topic, no throttle, every broker alive.
    """
    with shared("six_brokers", KafkaSandbox.start(6, print_progress=_say)) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def three_brokers() -> Iterator[KafkaSandbox]:
    """Three brokers without metrics endpoints, fresh for each module; throttles bind on short copies here.

    Kafka's own quota window of eleven seconds lets a first burst of ten seconds pass.
    """
    with KafkaSandbox.start(
        3, prometheus=False, properties={"replication.quota.window.num": "2"}, print_progress=_say
    ) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def three_pulsar_brokers() -> Iterator[PulsarSandbox]:
    """Three brokers of the newest Pulsar under the modular load manager, shared by all tests that want such.

    Tests leave it as they found it: every broker alive, no namespace of theirs left, no dynamic setting.
    """
    with shared("three_pulsar_brokers", PulsarSandbox.start(3, print_progress=_say)) as sandbox:
        yield sandbox


@pytest.fixture
def keys_clients_ended(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Clients of the balancer `keys` that a test leaves running are ended."""
    with clients_ended(monkeypatch):
        yield
