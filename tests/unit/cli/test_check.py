"""`trimtab check`: each thing that may be wrong, provoked, with its remedy; and nothing made on the way."""

import json
import os
import socket
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from threading import Thread

import pytest

from simulate.kafka.cluster import SimulatedKafka, cluster_of
from simulate.kafka.server import SimulatedKafkaServer
from simulate.pulsar_admin.server import Fault, Trouble
from support.local_paths import local
from support.pulsar_admin import loaded_server
from support.small_lake import NOON, broker_rows, imbalance_rows, publish, snapshot_folder
from trimtab import jars as jars_check
from trimtab.balancers import BALANCERS
from trimtab.cli.app import main
from trimtab.extras import EXTRAS
from trimtab.observe.lake.lake import Lake
from trimtab.systems.kafka import status as kafka_check
from trimtab_common.extras import MissingExtraError

CAPACITY = (
    "[capacity]\ncpu_cores = 8\nnetwork_in_bytes_per_second = 1e8\nnetwork_out_bytes_per_second = 1e8\n"
)


Pages = dict[str, str | Callable[[], str]]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's settings, lake or state but the test's."""
    for name in [one for one in os.environ if one.startswith("TRIMTAB_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TRIMTAB_LAKE", str(tmp_path / "lake"))
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def kafka() -> Iterator[tuple[SimulatedKafka, str]]:
    """Three brokers with a topic."""
    cluster = cluster_of(3)
    cluster.controller.create_topic("t", {0: [1, 2], 1: [1, 3], 2: [1, 2]}, size_bytes=60e6)
    with SimulatedKafkaServer(cluster) as server:
        yield cluster, ",".join(server.bootstrap)


@pytest.fixture
def exporter() -> Iterator[Pages]:
    """A metrics endpoint by path; what is not there answers 404."""
    pages: dict[str, str | Callable[[], str]] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = pages.get(self.path)
            self.send_response(404 if found is None else 200)
            self.end_headers()
            self.wfile.write((found() if callable(found) else found or "").encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, daemon=True).start()
    pages["address"] = f"http://127.0.0.1:{server.server_port}"
    yield pages
    server.shutdown()
    server.server_close()


def checked(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, tuple[str, str]]]:
    """Exit code, and (grade, sentence with remedy) by subject."""
    with pytest.raises(SystemExit) as ended:
        main(["check", "--json", *arguments])
    document = json.loads(capsys.readouterr().out)
    code = int(ended.value.code or 0)
    assert document["exit_code"] == code
    found: dict[str, tuple[str, str]] = {}
    for one in document["findings"]:
        text = f"{one['text']}; {one['remedy']}" if one["remedy"] else one["text"]
        before = found.get(one["subject"], ("", ""))[1]
        found[one["subject"]] = (one["grade"], f"{before} | {text}" if before else text)
    return code, found


def closed_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return int(server.getsockname()[1])


def test_without_anything_the_next_steps_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a cluster or lake nothing fails, and checking creates no folder."""
    code, found = checked(capsys)
    assert code == 1
    assert found["no file"] == ("fine", "all by default")
    assert found["cluster"] == (
        "missing",
        "none is named: nothing can be collected or applied; add [clusters.NAME] to the settings, or give "
        "--cluster kafka://host:9092,host:9092",
    )
    assert found["lake"] == ("fine", f"{tmp_path / 'lake'}: not there yet, made when first needed")
    assert found["state"] == ("fine", f"{tmp_path / 'state'}: not there yet, made when first needed")
    sampled = [name for name, level in BALANCERS.items() if level.direct_source_option is None]
    assert {found[name] for name in sampled} == {("missing", "no samples yet; `trimtab collect`")}
    assert not {*found} & ({*BALANCERS} - {*sampled})
    assert list(tmp_path.iterdir()) == []


def test_settings_of_all_sections_are_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A fault of each table, also of those that only one command reads."""
    (tmp_path / "trimtab.toml").write_text(
        "[replicas]\nthetta = 1\n[collect]\ninterval_seconds = 0\n[capacity]\ncores = 1\n"
        "[pipeline]\nwindow_seconds = -5\n[execution]\nthrottle = 'fast'\n[bundles]\nepsilon = 7\n"
        "[clusters.p]\naddress = 'pulsar+http://127.0.0.1:1'\ntokn = 'x'\n"
    )
    code, found = checked(capsys)
    told = found["fault"][1]
    assert (code, found["fault"][0]) == (2, "broken")
    for subject in (
        "replicas.thetta",
        "collect.interval_seconds is 0",
        "capacity.cores",
        "pipeline.window_seconds",
        "throttle",
        "bundles.epsilon is 7",
        "clusters.p.tokn",
    ):
        assert subject in told, subject


def test_a_file_that_is_no_toml_ends_the_check_of_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The other checks still run."""
    (tmp_path / "trimtab.toml").write_text("[replicas\n")
    code, found = checked(capsys)
    assert code == 2
    assert "is not TOML" in found["file"][1]
    assert found["state"][0] == "fine"


def test_folders_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A file in the way of one, another without the right to write."""
    (tmp_path / "file").write_text("no folder")
    (tmp_path / "mine").mkdir()
    monkeypatch.setenv("TRIMTAB_LAKE", str(tmp_path / "file" / "lake"))
    monkeypatch.setenv("TRIMTAB_STATE", str(tmp_path / "mine" / "state"))
    allowed = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: path != tmp_path / "mine" and allowed(path, mode))
    code, found = checked(capsys)
    assert code == 2
    assert found["lake"] == (
        "broken",
        f"{tmp_path / 'file' / 'lake'}: {tmp_path / 'file'} is no folder; name another with --lake or "
        "TRIMTAB_LAKE",
    )
    assert found["state"] == (
        "broken",
        f"{tmp_path / 'mine' / 'state'}: this user may not read and write in {tmp_path / 'mine'}; "
        "name another with TRIMTAB_STATE",
    )


def test_without_java_and_spark_the_installation_command_is_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Plans from a file need neither."""

    def require(extra: str) -> None:
        assert extra in EXTRAS.values()
        raise MissingExtraError(f"not installed: pip install the packages of {extra}")

    monkeypatch.setattr(jars_check, "require", require)
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    code, found = checked(capsys)
    assert code == 1
    assert found["Java"][0] == found["Spark"][0] == "missing"
    assert "set JAVA_HOME" in found["Java"][1]
    assert "pip install the packages of spark" in found["Spark"][1]


GROWTH = 1_000_000.0


def metrics(cluster: SimulatedKafka, broker: int) -> Callable[[], str]:
    """The exporter of a broker: its bytes in are what the logs hold that it leads; CPU runs on."""
    cpu = count(5_000_000_000, 1_000_000)

    def page() -> str:
        led = sum(one.size_bytes for one in cluster.partitions.values() if one.leader == broker)
        return (
            f"java_lang_operatingsystem_processcputime {next(cpu)}\n"
            f"java_lang_operatingsystem_availableprocessors 4\n"
            f"kafka_server_brokertopicmetrics_bytesin_total {led}\n"
            "kafka_server_brokertopicmetrics_bytesout_total 20\n"
            "kafka_server_brokertopicmetrics_replicationbytesin_total 5\n"
        )

    return page


@pytest.fixture
def growing(kafka: tuple[SimulatedKafka, str], monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Each partition grows while `check` waits; the bytes are in the list."""
    growth = [GROWTH]

    def wait(_: float) -> None:
        for one in kafka[0].partitions.values():
            one.size_bytes += growth[0]

    monkeypatch.setattr(kafka_check, "sleep", wait)
    return growth


@pytest.fixture
def metered(
    kafka: tuple[SimulatedKafka, str], exporter: Pages, growing: list[float], tmp_path: Path
) -> Pages:
    """Each of the brokers leads, and has an exporter at /ID that tells the truth."""
    kafka[0].controller.create_topic("u", {0: [2, 1], 1: [3, 1]}, size_bytes=1e6)
    (tmp_path / "trimtab.toml").write_text(
        f'{CAPACITY}[collect]\nprometheus = "{exporter["address"]}/{{id}}"\n'
    )
    for broker in (1, 2, 3):
        exporter[f"/{broker}"] = metrics(kafka[0], broker)
    return exporter


def changed(page: str | Callable[[], str], before: str, after: str) -> Callable[[], str]:
    """A page with other rules."""

    def other() -> str:
        text = page() if callable(page) else page
        assert before in text
        return text.replace(before, after)

    return other


def test_a_sound_kafka_cluster(
    kafka: tuple[SimulatedKafka, str],
    metered: Pages,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Every address, all rights, an endpoint a broker that two readings confirm, a capacity each."""
    code, found = checked(capsys, "--cluster", f"kafka://{kafka[1]}")
    assert {name for name, (grade, _) in found.items() if grade != "fine"} == {"replicas"}
    assert code == 1
    assert all(found[address][1] == "answers over PLAINTEXT" for address in kafka[1].split(","))
    assert found["rights on the cluster"][1] == "Alter, Describe, DescribeConfigs, AlterConfigs"
    assert found["rights on topics"][1] == "Describe, DescribeConfigs, AlterConfigs on all 2 that are seen"
    assert found["metrics"][1].startswith(
        "3 of 3 endpoints: CPU time rises, and bytes in agree with the growth"
    )
    assert "within 25%" in found["metrics"][1]
    assert found["capacity of CPU"][1] == found["capacity of network in"][1] == "declared for 3"
    assert found["capacity of disk"][1] == "told by its log dirs for 3"
    assert not (tmp_path / "lake").exists()
    assert not (tmp_path / "state").exists()


def test_an_idle_cluster_is_not_verified(
    kafka: tuple[SimulatedKafka, str],
    metered: Pages,
    growing: list[float],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Constant counters together with constant logs prove nothing."""
    growing[0] = 0.0
    code, found = checked(capsys, "--cluster", f"kafka://{kafka[1]}")
    assert found["metrics"] == (
        "missing",
        "not verified: no traffic on brokers 1, 2, 3; check again under load",
    )
    assert code == 1


BYTES_IN = "kafka_server_brokertopicmetrics_bytesin_total"


def test_counters_that_do_not_count(
    kafka: tuple[SimulatedKafka, str], metered: Pages, capsys: pytest.CaptureFixture[str]
) -> None:
    """A rate that its type line betrays, one without a type line, and a counter of something else."""
    metered["/1"] = changed(metered["/1"], BYTES_IN, f"# TYPE {BYTES_IN} gauge\n{BYTES_IN}")
    rate = count(1_000_813)
    metered["/2"] = lambda: (
        f"process_cpu_seconds_total {next(rate)}\n{BYTES_IN} {next(rate)}\n"
        + (
            "kafka_server_brokertopicmetrics_bytesout_total 20\n"
            "kafka_server_brokertopicmetrics_replicationbytesin_total 5\n"
        )
    )
    true = metrics(kafka[0], 3)
    metered["/3"] = lambda: "".join(
        f"{BYTES_IN} {float(line.split()[1]) / 2}\n" if line.startswith(BYTES_IN) else f"{line}\n"
        for line in true().splitlines()
    )
    code, found = checked(capsys, "--cluster", f"kafka://{kafka[1]}")
    assert code == 1
    assert "metrics" not in found
    gauge, hovering, half = (found[f"metrics of broker {broker}"][1] for broker in (1, 2, 3))
    assert f"without bytes_in_total ({BYTES_IN} is a gauge by its # TYPE line): bytes of all brokers" in gauge
    assert "no counter under a counter's name: in 0 s bytes_in_total changed by " in hovering
    assert "grew by 2,000,000 bytes: bytes of all brokers are estimated" in hovering
    assert "not verified: in 0 s bytes_in_total changed by 1,000,000, and the logs" in half
    assert half.endswith("grew by 2,000,000 bytes")


def test_topics_under_another_label(
    kafka: tuple[SimulatedKafka, str],
    metered: Pages,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Names of known topics are matched; others are reported, with the setting."""
    for broker in (1, 2, 3):
        metered[f"/{broker}"] = changed(
            metered[f"/{broker}"], BYTES_IN, f'{BYTES_IN}{{kafka_topic="t"}} 10\n{BYTES_IN}'
        )
    metered["/2"] = changed(metered["/2"], 'kafka_topic="t"', 'kafka_topic="gone"')
    _, found = checked(capsys, "--cluster", f"kafka://{kafka[1]}")
    assert found["metrics"][1].startswith("2 of 3 endpoints: CPU time rises")
    assert "if it names the topic, set collect.topic_label" in found["metrics of broker 2"][1]
    _, found = checked(capsys, "--cluster", f"kafka://{kafka[1]}", "--set", "collect.topic_label=kafka_topic")
    assert found["metrics"][1].startswith("3 of 3 endpoints: CPU time rises")


def test_one_address_for_all_brokers(
    kafka: tuple[SimulatedKafka, str],
    metered: Pages,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Split by a label with brokers' ids; rejected if nothing distinguishes them."""
    metered["/all"] = metered["/1"]
    (tmp_path / "trimtab.toml").write_text(f'[collect]\nprometheus = "{metered["address"]}/all"\n')
    _, found = checked(capsys, "--cluster", f"kafka://{kafka[1]}")
    assert "metrics" not in found
    assert (
        "is the endpoint of brokers 1, 2, 3, and no label tells their counters apart"
        in found["metrics of broker 2"][1]
    )
    pages = {broker: metrics(kafka[0], broker) for broker in (1, 2, 3)}
    metered["/all"] = lambda: "".join(
        f'{line.split()[0]}{{broker="{broker}"}} {line.split()[1]}\n'
        for broker, page in pages.items()
        for line in page().splitlines()
    )
    _, found = checked(capsys, "--cluster", f"kafka://{kafka[1]}")
    assert found["metrics"][1].startswith("3 of 3 endpoints: CPU time rises")


def test_addresses_that_do_not_answer(
    kafka: tuple[SimulatedKafka, str], capsys: pytest.CaptureFixture[str]
) -> None:
    """One of several is missing, all of them are broken."""
    dead = f"127.0.0.1:{closed_port()}"
    code, found = checked(capsys, "--cluster", f"kafka://{kafka[1]},{dead}")
    assert (code, found[dead][0]) == (1, "missing")
    assert "Connection refused" in found[dead][1]
    code, found = checked(capsys, "--cluster", f"kafka://{dead}")
    assert (code, found[dead][0]) == (2, "broken")
    assert "rights on topics" not in found


@pytest.mark.parametrize(
    ("rights", "grade", "told"),
    [
        (
            {8, 7, 10},
            "missing",
            "no AlterConfigs on the cluster: plans can be made, not applied; grant it, or ",
        ),
        ({8, 10, 11}, "missing", "no Alter on the cluster: plans can be made, not applied; grant it"),
        ({7, 10, 11}, "broken", "no Describe on the cluster: sizes are not told, and no plan can be made"),
        (None, "missing", "the brokers do not tell (before Kafka 2.3); see docs/how-to/apply.md"),
    ],
)
def test_rights_that_are_lacking(
    kafka: tuple[SimulatedKafka, str],
    capsys: pytest.CaptureFixture[str],
    rights: set[int] | None,
    grade: str,
    told: str,
) -> None:
    """Each by its name in kafka-acls, with what it is needed for."""
    kafka[0].rights = rights
    _, found = checked(capsys, "--cluster", f"kafka://{kafka[1]}")
    assert found["rights on the cluster"][0] == grade
    assert told in found["rights on the cluster"][1]


def test_rights_on_topics(kafka: tuple[SimulatedKafka, str], capsys: pytest.CaptureFixture[str]) -> None:
    """The first topics are named; and a user without rights is told so."""
    kafka[0].rights = {8, 7}
    for name in "abcd":
        kafka[0].controller.create_topic(name, {0: [1, 2]}, size_bytes=1e6)
    _, found = checked(capsys, "--cluster", f"kafka://{kafka[1]}")
    assert "no DescribeConfigs on a, b, c and 2 more" in found["rights on topics"][1]
    assert "no AlterConfigs on a, b, c and 2 more" in found["rights on topics"][1]
    with SimulatedKafkaServer(cluster_of(2)) as empty:
        _, found = checked(capsys, "--cluster", "kafka://" + ",".join(empty.bootstrap))
    assert found["rights on topics"] == (
        "missing",
        "no topic is seen: there is none, or none that this user may see; grant Describe on topics",
    )


def test_metrics_that_are_lacking(
    kafka: tuple[SimulatedKafka, str],
    exporter: Pages,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """None set; one that answers 404; one without CPU; a broker that the table leaves out."""
    _, found = checked(capsys, "--cluster", f"kafka://{kafka[1]}")
    assert found["metrics"][1].startswith("no endpoint is set: CPU is not balanced")
    assert found["metrics"][1].endswith("set collect.prometheus")
    exporter["/idle"] = metrics(kafka[0], 2)().partition("\n")[2]
    (tmp_path / "trimtab.toml").write_text(
        f'[collect.prometheus]\n1 = "{exporter["address"]}/nothing"\n2 = "{exporter["address"]}/idle"\n'
    )
    code, found = checked(capsys, "--cluster", f"kafka://{kafka[1]}")
    assert code == 1
    assert "metrics" not in found
    assert "/nothing answers 404" in found["metrics of broker 1"][1]
    assert "start it, or correct collect.prometheus" in found["metrics of broker 1"][1]
    assert (
        "answers without cpu_time_ns: CPU is not balanced; give it the rules"
        in found["metrics of broker 2"][1]
    )
    assert "add it to collect.prometheus" in found["metrics of broker 3"][1]


def test_a_password_in_an_address_is_not_printed(
    kafka: tuple[SimulatedKafka, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Neither that of an exporter nor that of the connection."""
    (tmp_path / "trimtab.toml").write_text(
        '[collect]\nprometheus = "http://ada:hunter2@127.0.0.1:1/metrics"\n'
        f'[clusters.k]\naddress = "kafka://{kafka[1]}"\nsecurity_protocol = "SASL_PLAINTEXT"\n'
        'sasl_mechanism = "PLAIN"\nuser = "ada"\npassword = "hunter2"\n'
    )
    checked_text = str(checked(capsys))
    assert "hunter2" not in checked_text
    assert "PLAIN" in checked_text
    (tmp_path / "trimtab.toml").write_text(
        '[collect]\nprometheus = "http://ada:hunter2@127.0.0.1:1/metrics"\n'
    )
    checked_text = str(checked(capsys, "--cluster", f"kafka://{kafka[1]}"))
    assert "metrics of broker 1" in checked_text
    assert "hunter2" not in checked_text


def test_capacities_that_are_lacking(
    kafka: tuple[SimulatedKafka, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of all brokers, and of some by name."""
    (tmp_path / "trimtab.toml").write_text("[capacity.brokers.2]\ncpu_cores = 4\n")
    _, found = checked(capsys, "--cluster", f"kafka://{kafka[1]}")
    assert found["capacity of CPU"][1].startswith("not known of brokers 1, 3: brokers are compared")
    assert found["capacity of network in"][1].startswith("not known of any broker: brokers are compared")
    assert found["capacity of network in"][1].endswith("set capacity.network_in_bytes_per_second")


def test_errors_of_the_collector_are_reported(capsys: pytest.CaptureFixture[str]) -> None:
    """A broker that died."""
    cluster = cluster_of(3)
    with SimulatedKafkaServer(cluster) as server:
        bootstrap = ",".join(server.bootstrap)
        cluster.kill_broker(2)
        server.advance(60.0)
        _, found = checked(capsys, "--cluster", f"kafka://{bootstrap}")
    assert found["samples"] == ("missing", "broker 2 is fenced: the controller counts it as dead")


def test_pulsar(capsys: pytest.CaptureFixture[str]) -> None:
    """One broker dead, tenants refused, no message rate declared."""
    with loaded_server() as server:
        server.faults.append(Fault("GET", "/tenants", Trouble.REFUSED))
        dead = server.urls[1]
        server.kill(server.ids[1])
        code, found = checked(capsys, "--cluster", "pulsar+" + ",".join(server.urls))
    assert code == 1
    assert found[server.urls[0]] == ("fine", "Pulsar 4.2.4 answers over plain HTTP")
    assert found[dead][0] == "missing"
    assert "Connection refused" in found[dead][1]
    assert found["right to read tenants"][0] == "missing"
    assert "unreachable" in found["samples"][1]
    assert found["capacity of CPU"] == ("fine", "told by its report for 2")
    assert found["capacity of message rate"][1].startswith("not known of any broker: it is not balanced")
    code, found = checked(capsys, "--cluster", f"pulsar+{dead}")
    assert (code, found[dead][0]) == (2, "broken")


def test_a_token_that_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The remedy is the brokers' own; the token is not printed."""
    (tmp_path / "token").write_text("wrong-token")
    with loaded_server(token="right") as server:
        code, found = checked(
            capsys,
            "--set",
            f"clusters.a.address=pulsar+{server.urls[0]}",
            "--set",
            f"clusters.a.token_file={tmp_path}/token",
        )
    assert code == 2
    assert "rights of a superuser" in found[server.urls[0]][1]
    assert "wrong-token" not in str(found)


def test_the_age_of_a_lake(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Samples without tables, tables without fresh samples, and all of them fresh."""
    lake = tmp_path / "lake"
    published = publish(
        lake,
        {
            "imbalance": [imbalance_rows(NOON, {1: (0.6, 0.3, 0.3, 0.1)})],
            "brokers": [broker_rows(NOON, {1: "alive"})],
        },
    )
    raw = local(Lake(lake, BALANCERS["replicas"].pipeline()).raw) / "date=2026-11-21"
    raw.mkdir(parents=True)
    (raw / "one.parquet").write_bytes(b"")
    at = NOON.timestamp()
    os.utime(raw / "one.parquet", (at, at))
    monkeypatch.setattr("time.time", lambda: at + 60.0)
    _, found = checked(capsys)
    assert found["replicas"][0] == "missing"
    assert found["replicas"][1].endswith("snapshots of 0 clusters; `trimtab pipeline run`")
    snapshot_folder(published)
    _, found = checked(capsys)
    assert found["replicas"][0] == "fine"
    assert found["replicas"][1].startswith("newest samples 1 min 0 s old, newest tables ")
    monkeypatch.setattr("time.time", lambda: at + 7200.0)
    _, found = checked(capsys)
    assert found["replicas"][0] == "missing"
    assert "newest samples 2 h 0 min old" in found["replicas"][1]
    assert found["replicas"][1].endswith("too old to plan from; `trimtab collect`, `trimtab pipeline run`")
    os.utime(raw / "one.parquet", (at + 7100, at + 7100))
    _, found = checked(capsys)
    assert found["replicas"][1].endswith("tables are behind; `trimtab pipeline run`")


def test_people_read_lines_with_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A heading a part, a mark a line, and the outcome last."""
    (tmp_path / "trimtab.toml").write_text("[replicas]\nthetta = 1\n")
    with pytest.raises(SystemExit):
        main(["check"])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "settings"
    assert lines[1].startswith("  ✗ fault")
    assert lines[1].endswith("replicas.thetta is not a setting; did you mean replicas.theta?")
    assert lines[2].startswith("  ! cluster")
    assert lines[3:5] == ["", "folders"]
    assert lines[-2:] == ["", "✗ says what is broken."]
