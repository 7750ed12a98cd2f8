"""Fixtures that several rooms share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the test run, started by the first test that asks for it."""
    from trimtab.observe.session import SessionSettings, spark_session

    settings = SessionSettings(master="local[2]", cores=2, memory="1g", short=True)
    session = spark_session(settings, scratch=tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()
