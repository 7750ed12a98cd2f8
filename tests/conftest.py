"""Fixtures that several rooms share."""

from __future__ import annotations

import sys
from contextlib import suppress
from inspect import isfunction
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

import tiers
from clusters import CLUSTERS, SHARED, cluster_of, end_unused, has_spark
from flaky import cause_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from support.object_store import ObjectStore
    from support.redis_server import Server

_SOCKETS_OF_PYSPARK = pytest.mark.filterwarnings(r"ignore:unclosed <socket.*127.0.0.1:ResourceWarning")
"""PySpark 4.1 leaves the socket by which it reads rows of its JVM to the garbage collector."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--tier`: the size of the run; see `tiers.py`."""
    parser.addoption(
        "--tier", choices=tiers.TIERS, default=tiers.DEFAULT, help="how much to run: see tests/tiers.py"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Set the tier, and with it how many examples Hypothesis tries.

    There is no deadline: Hypothesis would call an example wrong that took 0.2 seconds on a busy machine.
    """
    tier = config.getoption("--tier")
    tiers.begin(tier)
    settings.register_profile(tier, deadline=None, max_examples=tiers.examples())
    settings.load_profile(tier)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not import what `check` runs nothing of."""
    return True if config.getoption("--tier") == "check" and collection_path == tiers.INTEGRATION else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The order in which tests are begun: those on real brokers first, since they wait more than they work.

    The demos come last of them, then those with Spark and the planner's own tests; the last test of a run
    should be a short one. A test of the list in `flaky.py` that fails is run again once: see
    `pytest_terminal_summary`.
    """
    for item in items:
        marked = next((name for name in CLUSTERS if item.get_closest_marker(name)), "")
        if marked != cluster_of(item.nodeid):
            raise pytest.UsageError(
                f"{item.nodeid} is marked {marked or 'for no cluster'}, and tests/clusters.py has it under "
                f"{cluster_of(item.nodeid) or 'none'}: correct one of the two"
            )
        if "spark" in _fixtures(item) and not item.get_closest_marker("spark"):
            raise pytest.UsageError(f"{item.nodeid} uses the fixture `spark`: mark it `spark`")
        if item.get_closest_marker("spark"):
            item.add_marker(_SOCKETS_OF_PYSPARK)
        if cause_of(item.nodeid) is not None:
            item.add_marker(pytest.mark.flaky(reruns=1))
    left_out = [item for item in items if not tiers.is_in_tier(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if tiers.is_in_tier(item)]
    items.sort(key=_turn)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Show every failure after which a test was run again, whole and with its cause in `flaky.py`.

    It is shown whether or not the second run passed: each such failure is a question about trimtab first.
    """
    for report in terminalreporter.stats.get("rerun", ()):
        terminalreporter.section(f"failed, and was run again: {report.nodeid}", yellow=True)
        terminalreporter.write_line(f"known cause: {cause_of(report.nodeid)}")
        terminalreporter.write_line(report.longreprtext)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """All tests on Kafka go to one process and all on Pulsar to another, so that each starts one cluster."""
    from clusters import ClustersApart

    return ClustersApart(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """End shared clusters before the first test without them, not after the last with: it may be repeated."""
    end_unused(_fixtures(item))


def _turn(item: pytest.Item) -> tuple[int, bool, bool]:
    cluster = cluster_of(item.nodeid)
    if cluster:
        alone = not set(SHARED) & set(_fixtures(item))
        return CLUSTERS.index(cluster), alone, item.path.name.startswith("test_demo")
    return len(CLUSTERS), not has_spark(item.path), item.path.name != "test_planners.py"


def _fixtures(item: pytest.Item) -> list[str]:
    return getattr(item, "fixturenames", [])


@pytest.fixture(scope="session", autouse=True)
def _own_state_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Executions of tests are in a folder of their own, not among those of the user who runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def short_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search of `trim` that takes a fraction of the usual time, for tests that ask for no good plan."""
    from trimtab.plan.replicas import trim

    monkeypatch.setattr(trim, "LEAST_CHANGES", 1_000)
    monkeypatch.setattr(trim, "MOST_CHANGES", 3_000)


@pytest.fixture(autouse=True)
def _short_search_without_compiler(request: pytest.FixtureRequest) -> None:
    """The same for all tests where kernels are not compiled, as for mutants: the usual one takes 30 s."""
    trim = sys.modules.get("trimtab.plan.replicas.trim")
    if trim is not None and isfunction(trim.balance):
        from trimtab.plan.replicas import choices

        request.getfixturevalue("short_search")
        request.getfixturevalue("monkeypatch").setattr(choices, "WORK", choices.WORK // 100)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the test run, started by the first test that asks for it."""
    from trimtab.jars import spark_s3_jars
    from trimtab.model.errors import JarsError
    from trimtab.observe.spark.session import SessionSettings, spark_session

    # Also able to reach a store, once a test says which; on the class path jars are not copied first. Where
    # they cannot be had, only tests that need them shall fail.
    jars: list[Path] = []
    with suppress(JarsError):
        jars = spark_s3_jars()
    settings = SessionSettings(
        master="local[2]", memory="1g", conf={"spark.driver.extraClassPath": ":".join(map(str, jars))}
    )
    session = spark_session(settings, scratch=tmp_path_factory.mktemp("spark"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def s3_server() -> Iterator[ObjectStore]:
    """The one S3 server of the test run."""
    from support.object_store import object_store

    with object_store() as store:
        yield store


@pytest.fixture
def s3(s3_server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> ObjectStore:
    """An S3 server that clients find by the environment."""
    for name, value in s3_server.environment.items():
        monkeypatch.setenv(name, value)
    return s3_server


@pytest.fixture(scope="session")
def queue_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The one server of queues of the test run; who changes its settings has one of his own."""
    from support.redis_server import Server, binaries

    server = Server(binaries()["valkey"], tmp_path_factory.mktemp("queue-server"))
    yield server
    server.stop()


@pytest.fixture
def server(queue_server: Server) -> Server:
    """The same, empty; also after a test that stopped it and failed."""
    if queue_server.process is None:
        queue_server.start()
    queue_server.empty()
    return queue_server
