"""The README and the pages on one's own cluster, typed as printed, on real clusters under load."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.chains import QUICK, Reader, require_improved, require_true_status
from support.kafka_truth import counters, require_what_brokers_say
from support.pages import blocks_of, missing_lines, typed
from support.pulsar_truth import require_what_clients_did
from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.kafka.placement import SandboxPlacement
from trimtab.lab.sandbox.kafka.topics import create_topics, delete_topics
from trimtab.lab.sandbox.kafka.workload import KafkaTopicLoad, KafkaWorkload
from trimtab.lab.sandbox.load import LoadSummary, SandboxLoad, failures_text
from trimtab.lab.sandbox.pulsar import PulsarSandbox
from trimtab.lab.sandbox.pulsar.namespaces import create_namespaces, delete_namespaces, place_unevenly
from trimtab.lab.sandbox.pulsar.workload import skewed
from trimtab.systems.pulsar.admin import PulsarAdmin

PAGE, KAFKA, PULSAR = "README.md", "docs/how-to/kafka.md", "docs/how-to/pulsar.md"
NOT_TYPED = {
    f"{PAGE}: Install and try: 1": "`make demo` has its own test, and `make test` runs this one",
    f"{PAGE}: First commands on your own cluster: 1": "each command is one of the page on Kafka",
}
NONE = re.compile(r"(?!)")
NETWORK = {"network in": "network_in", "network out": "network_out"}
TRAFFIC = {"bandwidth in": "bandwidth_in", "bandwidth out": "bandwidth_out", "message rate": "message_rate"}
SMALL = {"1.25e8": "1e6", "50000": "500"}
"""Capacities in place of the page's, of which the load of the test takes about a third."""
# All replicas on two of six brokers, in two racks: nothing could be less balanced, nor easier to balance.
WORKLOAD = KafkaWorkload((KafkaTopicLoad("readme-orders", (30_000.0,) * 6, consumers=1),), record_bytes=3_000)
PLACEMENT = SandboxPlacement({"readme-orders": ((1, 3), (3, 1)) * 3}, "controller")


def test_every_command_of_the_pages_is_typed() -> None:
    """Each block of commands belongs to a chain that is typed, or is left out by name; no other hides any."""
    assert {block.name for block in typed(PAGE)} == set(NOT_TYPED)
    assert [len(typed(page)) for page in (KAFKA, PULSAR)] == [2, 2]
    for block in (block for page in (PAGE, KAFKA, PULSAR) for block in blocks_of(page)):
        if block.language not in ("sh", "console"):
            assert block.language in ("text", "toml", "python"), block.name
            assert not re.search(r"^\$|^(trimtab|make) ", block.text, re.MULTILINE), block.name


def test_the_first_commands_are_those_of_the_page_on_kafka() -> None:
    """The README shows a part of the chain that is typed."""
    chain = {_command(line) for block in typed(KAFKA) for line in block.text.splitlines()}
    (first,) = (block for block in typed(PAGE) if "check" in block.text)
    assert [line for line in first.text.splitlines() if _command(line) not in chain] == []


def _command(line: str) -> str:
    return line.partition("#")[0].strip()


def test_a_line_that_is_not_printed_is_detected() -> None:
    """Figures and omissions may differ between page and run, words may not."""
    shown = ["trimtab: writing 298 MB", "[...]", "2 topics created, none removed", "broker 1   12 ▲+8%"]
    assert (
        missing_lines(shown, "trimtab: writing 3 MB\n9 topics created, none removed\nbroker 7 -", NONE) == []
    )
    assert missing_lines(shown, "trimtab: writing 3 MB\n9 topics removed\nbroker 7 -", NONE) == shown[2:3]


def test_a_status_that_is_not_true_is_noticed() -> None:
    """If one broker of two holds everything, the result is not balanced, whatever is printed."""
    disk = {"replicas": [1], "leader": 1, "leader_load": {"disk": 5.0}, "follower_load": {}}
    brokers = [{"id": broker, "capacity": {"disk": 10.0}} for broker in (1, 2)]
    snapshot = {"taken_at": "T", "quality": {}, "brokers": brokers, "partitions": [disk]}
    true = (
        "disk  50%  80%  100.0%  10.0%  0.2500  0.0500  not balanced\n"
        "disk: not balanced. `trimtab plan replicas` finds the fewest moves that help.\n"
        "Goals are judged by the snapshot of T, as in a plan\n"
    )
    require_true_status(true, snapshot, {"disk": "disk"})
    lies = [
        ("  not balanced", "  balanced"),
        ("100.0%", "9.0%"),
        ("of T", "of S"),
        ("disk: not balanced.", "No goal is missed."),
    ]
    for words, others in lies:
        with pytest.raises(AssertionError):
            require_true_status(true.replace(words, others), snapshot, {"disk": "disk"})


@pytest.fixture
def kafka_load(six_brokers: KafkaSandbox, tmp_path: Path) -> Iterator[SandboxLoad]:
    """A topic on two of the six brokers, written and read."""
    create_topics(six_brokers.connection, WORKLOAD, PLACEMENT)
    try:
        with SandboxLoad.start(six_brokers.connection, WORKLOAD, tmp_path / "load") as load:
            yield load
    finally:
        delete_topics(six_brokers.connection, WORKLOAD.topic_names)


@pytest.mark.kafka
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_kafka(six_brokers: KafkaSandbox, kafka_load: SandboxLoad, tmp_path: Path) -> None:
    """From the first status to the last line, with measures by the brokers' own counters and log dirs."""
    chain, again = typed(KAFKA)
    filled_in = {"broker1:9092": six_brokers.bootstrap}
    with Reader(tmp_path, QUICK, filled_in) as reader:
        _, _, checked, look, _, _, first, _, receipt = reader.type(chain)
        require_checked(checked, "Kafka")
        assert "placement only" in look
        assert ": finished" in receipt
        *_, last, measured = reader.type(again, lambda: counters(six_brokers.prometheus_endpoints))
        require_measured(measured, "copied (", list(NETWORK))
        snapshot = reader.require_true_status(last, NETWORK | {"disk": "disk"})
        plan = tmp_path / "plan.json"
        require_what_brokers_say(six_brokers.connection, last, snapshot, reader.looks, plan)
        fresh = reader.run("trimtab measure --live --duration 20s --cluster kafka://$brokers")
        require_measured(fresh, "copied (", list(NETWORK))
        assert "11 samples, one every 2 s" in fresh
    require_improved(first, last, list(NETWORK), _of(kafka_load.summary()))


def require_checked(printed: str, title: str) -> None:
    """The cluster answers, nothing is broken, and what is missing is named."""
    lines = printed.splitlines()
    assert lines[0] == "settings", printed
    assert any(re.search("✓ .*answers over", line) for line in lines[lines.index(title) :]), printed
    assert "  ✗ " not in printed, printed
    assert lines[-1] == "Nothing is broken; ! says what is missing.", printed


def require_measured(printed: str, price: str, resources: list[str]) -> None:
    """Both sides were sampled, with the price; the last line judges them, one way or another."""
    assert price in " ".join(printed.split()), printed
    assert all(
        re.search(rf"^{side}: \d+ samples, ", printed, re.MULTILINE) for side in ("before", "after")
    ), printed
    assert all(
        re.search(rf"^{name} +(mean|worst deviation) ", printed, re.MULTILINE) for name in resources
    ), printed
    last = " ".join(printed.rstrip().rsplit("\n\n", 1)[-1].split())
    assert re.search(r"goal|did not help", last), printed


def _of(load: LoadSummary) -> str:
    """What a load did, in the words of `sandbox kafka load`."""
    late = f", {load.late_records} late by over a second" if load.late_records else ""
    return f"{load.produced_records} of {load.planned_records}{late}; {failures_text(load)}"


@pytest.fixture
def pulsar_load(three_pulsar_brokers: PulsarSandbox, tmp_path: Path) -> Iterator[SandboxLoad]:
    """Uneven bundles, most of the load on the first broker."""
    workload = skewed(messages_per_second=200.0)
    with PulsarAdmin(three_pulsar_brokers.connection) as admin:
        create_namespaces(admin, workload)
        try:
            place_unevenly(admin, workload, three_pulsar_brokers.brokers)
            with SandboxLoad.start(admin.connection, workload, tmp_path / "load") as load:
                yield load
        finally:
            delete_namespaces(admin, workload)


@pytest.mark.pulsar
@pytest.mark.long
@pytest.mark.timeout(3600)
def test_pulsar(three_pulsar_brokers: PulsarSandbox, pulsar_load: SandboxLoad, tmp_path: Path) -> None:
    """From the first status to the last line, with measures by the clients of the owning brokers."""
    chain, again = typed(PULSAR)
    filled_in = {"http://broker1:8080": ",".join(three_pulsar_brokers.web_urls.values())} | SMALL
    (settings,) = (block for block in blocks_of(PULSAR) if block.language == "toml")
    with (
        Reader(tmp_path, QUICK, filled_in) as reader,
        PulsarAdmin(three_pulsar_brokers.connection) as admin,
    ):
        (tmp_path / "trimtab.toml").write_text(reader.as_typed(settings.text), encoding="utf-8")
        reader.run('export PATH="$PWD/.venv/bin:$PATH"')
        _, checked, look, _, _, first, strategies, _, receipt = reader.type(chain)
        require_checked(checked, "Pulsar")
        assert "read directly from the brokers" in look
        assert "What each strategy would do now" in strategies
        assert ": finished" in receipt
        *_, last, measured = reader.type(again)
        require_measured(measured, "bundle", list(TRAFFIC))
        snapshot = reader.require_true_status(last, TRAFFIC)
        require_what_clients_did(admin, last, snapshot, (pulsar_load, *reader.looks), tmp_path / "plan.json")
    require_improved(first, last, list(TRAFFIC), _of(pulsar_load.summary()))
