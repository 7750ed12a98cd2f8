"""Fixtures that several rooms share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

SERVERS = ("kafka", "spark")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where tests are shared among processes, one has all that start brokers: they wait more than they work.

    They come first, so that the other processes are not done long before that one. The planner's tests come
    next: another process compiles it meanwhile, and the demo, last of the tests on brokers, finds it
    compiled.
    """
    for item in items:
        for kind in SERVERS:
            if item.get_closest_marker(kind):
                item.add_marker(pytest.mark.xdist_group(kind))
                break
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("kafka"):
        return 1 if item.path.name == "test_demo.py" else 0
    return 2 if item.path.name == "test_planners.py" else 3


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the test run, started by the first test that asks for it."""
    from trimtab.observe.session import SessionSettings, spark_session

    settings = SessionSettings(master="local[2]", cores=2, memory="1g", short=True)
    session = spark_session(settings, scratch=tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
