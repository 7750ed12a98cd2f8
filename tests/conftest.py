"""Fixtures that several rooms share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The order in which tests are begun; `make test` hands them out to two processes one by one.

    Those that start brokers come first: they wait more than they work, and the last test of a run should be
    a short one. The demo comes last of them and the planner's own tests next, so that the planner is
    compiled before most tests that need it.
    """
    items.sort(key=_turn)


def _turn(item: pytest.Item) -> int:
    if item.get_closest_marker("kafka") or item.get_closest_marker("pulsar"):
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
