"""Which tests need which real cluster, and how they are handed out to the processes of a run."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from xdist.scheduler import LoadScopeScheduling

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from contextlib import AbstractContextManager

CLUSTERS = ("kafka", "pulsar")
"""Also the names of the markers."""

_PLACES = {
    "kafka": (
        "tests/integration/test_apply_command.py",
        "tests/integration/test_collect.py",
        "tests/integration/test_demo.py",
        "tests/integration/test_demo_keys.py",
        "tests/integration/test_demo_serve.py",
        "tests/integration/test_faults.py",
        "tests/integration/test_kafka_classes.py",
        "tests/integration/test_keyed_load.py",
        "tests/integration/test_keys_clients.py",
        "tests/integration/test_keys_leaders.py",
        "tests/integration/test_keys_balancer.py",
        "tests/integration/test_keys_load.py",
        "tests/integration/test_lake_on_s3.py",
        "tests/integration/test_sandbox.py",
        "tests/integration/test_serve_first_hour.py",
        "tests/integration/test_readme.py::test_kafka",
        "tests/integration/test_scram.py",
        "tests/integration/test_stream.py::test_stream_from_a_topic",
        "tests/integration/test_tutorial.py",
    ),
    "pulsar": (
        "tests/integration/test_apply_bundles.py",
        "tests/integration/test_collect_pulsar.py",
        "tests/integration/test_demo_bundles.py",
        "tests/integration/test_pulsar_broker_rules.py",
        "tests/integration/test_pulsar_classes.py",
        "tests/integration/test_pulsar_extensible.py",
        "tests/integration/test_pulsar_rules.py",
        "tests/integration/test_readme.py::test_pulsar",
        "tests/integration/test_sandbox_pulsar.py",
    ),
}


def cluster_of(nodeid: str) -> str:
    """The cluster that a test needs, by its name alone: who hands tests out knows no markers."""
    if nodeid.startswith("tests/contracts/") and "[real" in nodeid:
        return "kafka"
    return next((name for name, places in _PLACES.items() if nodeid.startswith(places)), "")


SHARED = ("six_brokers", "three_pulsar_brokers")
"""Fixtures of a cluster for many tests, which come before the others of their chain."""

_running: dict[str, ExitStack] = {}


@contextmanager
def shared(name: str, cluster: AbstractContextManager[Any]) -> Iterator[Any]:
    """A cluster until the end of the run, or until `end_unused`: idle brokers take a fifth of a core."""
    with ExitStack() as stack:
        one = stack.enter_context(cluster)
        _running[name] = stack
        yield one


def end_unused(fixtures: Collection[str]) -> None:
    """End the shared clusters that a test does not use, for none after it does."""
    for name in set(_running) - set(fixtures):
        _running.pop(name).close()


@cache
def has_spark(file: Path) -> bool:
    """Whether tests of a file start Spark, by its text alone."""
    return "pytest.mark.spark" in file.read_text(encoding="utf-8")


class ClustersApart(LoadScopeScheduling):  # type: ignore[misc]
    """The tests of a cluster stay together, and all with Spark; the others are handed out one by one.

    A JVM takes most of its time to start and to compile: one for all tests takes a third of that of three.

    pytest-xdist's own groups (`--dist loadgroup`) have no effect under pytest 9.2.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = self.config.rootpath / nodeid.partition("::")[0]
        return cluster_of(nodeid) or ("spark" if has_spark(file) else nodeid)
