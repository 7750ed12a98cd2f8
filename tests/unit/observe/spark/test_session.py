"""The section `[spark]` and the options of a Spark session; no JVM is started here."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from synthetic_telemetry import SyntheticCluster, land_by_tick
from trimtab.balancers.settings import read_settings
from trimtab.jars import find_java
from trimtab.model.errors import JarsError, ObserveError
from trimtab.observe.lake.lake import Lake
from trimtab.observe.replicas.pipeline import PIPELINE as REPLICAS
from trimtab.observe.replicas.pipeline import ReplicasPipelineSettings
from trimtab.observe.spark import session as spark_sessions
from trimtab.observe.spark.session import (
    SessionSettings,
    archive,
    comet_jars,
    executors_elsewhere,
    session_options,
    spark_session,
    start_options,
    stream_settings,
)
from trimtab.observe.steps.stream import StreamSource, run_stream
from trimtab_common.errors import SettingsError


def test_local_spark_listens_on_loopback_only_and_has_no_web_page() -> None:
    """A laptop in a café must not offer a Spark page to the room."""
    options = session_options(SessionSettings())
    assert options["spark.driver.bindAddress"] == "127.0.0.1"
    assert options["spark.driver.host"] == "127.0.0.1"
    assert options["spark.ui.enabled"] == "false"
    assert options["spark.sql.session.timeZone"] == "UTC"


def test_fast_starts_have_room_for_compiled_code() -> None:
    """With the default code cache of the fast mode the JVM stops compiling after a minute of stream."""
    options = session_options(SessionSettings())
    assert "ReservedCodeCacheSize" in options["spark.driver.extraJavaOptions"]
    heavy = session_options(SessionSettings(large_job=True))
    assert "TieredStopAtLevel" not in heavy["spark.driver.extraJavaOptions"]
    assert "spark.sql.codegen.wholeStage" not in heavy
    # A step has more classes than Spark keeps by default, and methods longer than the JVM compiles.
    assert int(heavy["spark.sql.codegen.cache.maxEntries"]) >= 1000
    assert int(heavy["spark.sql.codegen.hugeMethodLimit"]) <= 8000


def test_spark_starts_from_its_archive_if_there_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fast or heavy, of this Spark and Java; a path that Spark would cut in two is not given."""
    for place, expected in ((tmp_path, True), (tmp_path / "two words", False)):
        monkeypatch.setenv("TRIMTAB_CACHE", str(place))
        place.mkdir(exist_ok=True)
        options = session_options(SessionSettings())["spark.driver.extraJavaOptions"]
        assert "SharedArchiveFile" not in options
        archive().touch()
        for heavy in (True, False):
            options = session_options(SessionSettings(large_job=heavy))["spark.driver.extraJavaOptions"]
            assert (f" -XX:SharedArchiveFile={archive()} " in options) == expected


def test_shuffles_are_cut_by_the_cores_there_are() -> None:
    """The cores of the driver do not determine those of a cluster: Spark partitions finely there, and
    coalesces small parts.
    """

    def partitions(**given: object) -> int:
        return int(session_options(SessionSettings(**given))["spark.sql.shuffle.partitions"])  # type: ignore[arg-type]

    assert partitions(master="local[3]") == 3
    assert partitions(master="local[*]", cores=5) == 5
    assert partitions(cores=5) == 5
    assert partitions(master="spark://one:7077") == 200
    assert partitions(master="spark://one:7077", cores=100) == 300
    assert partitions(master="spark://one:7077", cores=2) == 6


@pytest.mark.parametrize(
    ("samples", "memory", "is_large", "parts", "compiler"),
    [(0, "2g", False, "1", "fast"), (10_000, "512m", False, "1", "fast"),
     (100_000, "1200m", False, "2", "full"), (1_670_000, "3g", True, "4", "full")],
)  # fmt: skip
def test_a_stream_takes_the_memory_that_its_ticks_need(
    samples: int, memory: str, is_large: bool, parts: str, compiler: str
) -> None:
    """Heap, compiler and shuffles follow the samples of a tick; settings of the user have precedence."""
    found = stream_settings(SessionSettings(cores=4), samples)
    assert (found.memory, found.large_job) == (memory, is_large)
    options = session_options(found)
    assert options["spark.driver.memory"] == memory
    assert options["spark.sql.shuffle.partitions"] == parts
    java = options["spark.driver.extraJavaOptions"]
    assert ("TieredStopAtLevel=1" in java) == (compiler == "fast")
    assert ("UseSerialGC" in java) != is_large
    assert java.endswith(start_options())
    assert options.get("spark.sql.codegen.wholeStage", "true") == "true"
    own = SessionSettings(memory="5g", conf={"spark": {"sql": {"shuffle": {"partitions": 7}}}})
    chosen = session_options(stream_settings(own, samples))
    assert (chosen["spark.driver.memory"], chosen["spark.sql.shuffle.partitions"]) == ("5g", "7")
    accelerator = "auto" if is_large else "none"
    cluster = SessionSettings(master="yarn")
    assert stream_settings(cluster, samples) == replace(cluster, accelerator=accelerator)
    assert stream_settings(SessionSettings(large_job=False), samples).large_job is False
    large = stream_settings(SessionSettings(large_job=True), samples)
    assert (large.memory, large.large_job, large.accelerator) == (None, True, accelerator)
    for long in (large, *([found] if is_large else [])):
        # A stream goes on for days: the full compiler pays off, as it does not for one batch with Comet.
        java = session_options(long, comet=[Path("comet.jar")])["spark.driver.extraJavaOptions"]
        assert "UseParallelGC" in java and "TieredStopAtLevel" not in java
    assert stream_settings(SessionSettings(accelerator="comet"), samples).accelerator == "comet"
    assert found.accelerator == ("auto" if is_large else "none")


@pytest.mark.parametrize("memory", [None, "256m"])
@pytest.mark.parametrize("samples", [0, 10_000, 100_000, 1_670_000])
def test_java_prints_nothing_about_its_options(samples: int, memory: str | None) -> None:
    """Standard output belongs to `--json`; a small heap of the user is taken too."""
    options = session_options(stream_settings(SessionSettings(memory=memory), samples))
    java = options["spark.driver.extraJavaOptions"].split()
    command = [str(find_java("Spark").program), f"-Xmx{options['spark.driver.memory']}", *java, "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == ""
    assert "warning" not in done.stderr


def test_a_cluster_is_no_laptop() -> None:
    """Its driver listens to the network, its executors get their memory, and queries are compiled."""
    there = SessionSettings(master="yarn", cores=8, executor_memory="6g", packages=("a:b:1",))
    options = session_options(there)
    assert "spark.driver.bindAddress" not in options
    assert options["spark.executor.extraJavaOptions"] == "-XX:+UseParallelGC"
    assert "spark.sql.codegen.wholeStage" not in options
    assert options["spark.executor.memory"] == "6g"
    assert options["spark.cores.max"] == "8"
    assert options["spark.jars.packages"] == "a:b:1"


def test_comet_runs_large_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its own choice only where queries are long; one that must have it and cannot is refused."""
    jar, found = Path("comet.jar"), [Path("comet.jar")]
    monkeypatch.setattr(spark_sessions, "spark_comet_jars", lambda _: found)
    assert comet_jars(SessionSettings()) == []
    assert comet_jars(SessionSettings(accelerator="comet")) == [jar]
    assert comet_jars(SessionSettings(large_job=True)) == [jar]
    assert comet_jars(SessionSettings(master="spark://one:7077")) == []
    assert comet_jars(SessionSettings(master="spark://one:7077", accelerator="comet")) == [jar]
    assert comet_jars(SessionSettings(large_job=True, accelerator="none")) == []
    found.clear()
    assert comet_jars(SessionSettings(large_job=True)) == []
    with pytest.raises(ObserveError, match=r"Comet has no build for pyspark .*spark.accelerator = none"):
        comet_jars(SessionSettings(accelerator="comet"))
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert comet_jars(SessionSettings(large_job=True)) == []
    with pytest.raises(ObserveError, match="spark-submit has started Spark without Comet"):
        comet_jars(SessionSettings(accelerator="comet"))


def test_without_a_download_spark_runs_without_comet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without network gets its tables, and is told; one that must have Comet is refused."""

    def fail(_: object) -> list[Path]:
        raise JarsError("no network")

    monkeypatch.setattr(spark_sessions, "spark_comet_jars", fail)
    lines: list[str] = []
    assert comet_jars(SessionSettings(large_job=True), lines.append) == []
    assert lines == ["Spark runs without Comet: no network"]
    with pytest.raises(JarsError, match="no network"):
        comet_jars(SessionSettings(accelerator="comet"))


def test_comet_is_added_to_the_class_path_of_the_settings() -> None:
    """Driver and executors load Comet, and what the settings add."""
    given = SessionSettings(conf={"spark.driver.extraClassPath": "mine.jar"}, off_heap_memory="3g")
    options = session_options(given, jars=[Path("s3.jar")], comet=[Path("comet.jar")])
    assert options["spark.driver.memory"] == "1536m"
    assert (
        session_options(replace(given, memory="3g"), comet=[Path("comet.jar")])["spark.driver.memory"] == "3g"
    )
    assert options["spark.driver.extraClassPath"] == "comet.jar:mine.jar"
    assert options["spark.executor.extraClassPath"] == "comet.jar"
    assert options["spark.jars"] == "s3.jar"
    assert options["spark.memory.offHeap.size"] == "3g"
    assert "spark.plugins" not in session_options(given)


@pytest.mark.parametrize("with_comet", [False, True])
def test_a_jvm_that_only_plans_has_the_fast_compiler(with_comet: bool) -> None:
    """The full one serves large jobs whose queries run in the JVM."""
    options = session_options(
        SessionSettings(large_job=True), comet=[Path("comet.jar")] if with_comet else []
    )
    java = options["spark.driver.extraJavaOptions"]
    assert ("-XX:TieredStopAtLevel=1" in java) == with_comet
    assert "-XX:+UseParallelGC" in java


def test_spark_submit_has_chosen_master_and_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its command line precedes default values."""
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "4711")
    assert SessionSettings().address is None
    assert SessionSettings(master="yarn").address == "yarn"
    assert "spark.driver.memory" not in session_options(SessionSettings())


def test_any_setting_of_sparks_own(tmp_path: Path) -> None:
    """Dotted names are tables in TOML and strings in Spark; ours yield."""
    file = tmp_path / "trimtab.toml"
    file.write_text(
        '[spark]\nmaster = "k8s://https://one"\n[spark.conf]\n"spark.yarn.queue" = "night"\n'
        "spark.executor.instances = 4\nspark.speculation = true\nspark.ui.enabled = true\n"
    )
    words = ("spark.conf.spark.sql.shuffle.partitions=7",)
    found = read_settings(file, words, {"TRIMTAB_SPARK_MEMORY": "3g"}).section("spark", SessionSettings)
    options = session_options(found)
    assert options["spark.yarn.queue"] == "night"
    assert options["spark.executor.instances"] == "4"
    assert options["spark.speculation"] == "true"
    assert options["spark.ui.enabled"] == "true"
    assert options["spark.sql.shuffle.partitions"] == "7"
    assert options["spark.driver.memory"] == "3g"
    assert "night" not in repr(found)


def test_an_unreachable_spark_connect_server_is_reported_immediately() -> None:
    """Spark's client would try for ten minutes."""
    with pytest.raises(ObserveError, match=r"Spark Connect at sc://127.0.0.1:1 does not answer: .*refused"):
        spark_session(SessionSettings(master="sc://127.0.0.1:1"))


@pytest.mark.skipif(find_spec("grpc") is not None, reason="the client of Spark Connect is installed")
def test_a_missing_spark_connect_client_is_named(tmp_path: Path) -> None:
    """It is an extra of PySpark's own."""
    land_by_tick(SyntheticCluster(brokers=2, partitions=1).raw(1), tmp_path / "raw")
    with socket.create_server(("127.0.0.1", 0)) as server:
        master = f"--master=sc://127.0.0.1:{server.getsockname()[1]}"
        command = [sys.executable, "-m", "trimtab", "pipeline", "run", f"--lake={tmp_path}", master]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240)
    assert done.returncode == 1
    assert re.fullmatch(r"trimtab: .*grpcio.* pip install 'pyspark\[connect\]'\n", done.stderr), done.stderr


def test_a_stream_over_spark_connect_is_refused(tmp_path: Path) -> None:
    """Before the start: the lake is unchanged."""
    connected = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    lake = Lake(tmp_path, REPLICAS)
    with pytest.raises(ObserveError, match="a stream cannot run over Spark Connect .* by spark-submit"):
        run_stream(connected, lake, ReplicasPipelineSettings(), StreamSource())
    assert executors_elsewhere(connected) == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"memory": "lots"}, "spark.memory is 'lots': write a size as Spark does"),
        ({"executor_memory": "0g"}, "spark.executor_memory is '0g'"),
        ({"cores": -1}, "spark.cores is -1"),
        ({"packages": ("hadoop-aws",)}, "'hadoop-aws' is no Maven coordinate"),
    ],
)
def test_invalid_spark_settings_are_rejected_early(wrong: dict[str, object], told: str) -> None:
    """Half a minute and a stack trace later."""
    with pytest.raises(SettingsError, match=told):
        SessionSettings(**wrong)  # type: ignore[arg-type]
