"""Picking a broker's counters out of what JMX exporters give."""

import random
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from trimtab.systems.kafka.metrics import BrokerCounters, ClusterNames, read_exposition

BY_RULES = """\
# HELP kafka_server_brokertopicmetrics_bytesin_total Attribute exposed for management
# TYPE kafka_server_brokertopicmetrics_bytesin_total counter
kafka_server_brokertopicmetrics_bytesin_total 1.5E7
kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 9000000.0
kafka_server_brokertopicmetrics_bytesout_total{topic="orders"} 3.0E6
kafka_server_brokertopicmetrics_replicationbytesin_total 7.0
java_lang_operatingsystem_processcputime 1.234E10
java_lang_operatingsystem_availableprocessors 4.0
kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent 0.97
"""

SAME_THING = {
    "meter in the name, Count attribute": "kafka_server_brokertopicmetrics_bytesinpersec_count 42",
    "counter suffix added by the agent": "kafka_server_brokertopicmetrics_bytesinpersec_count_total 42",
    "without the unit": "kafka_server_brokertopicmetrics_bytesin_total 42",
    "as named, not lowered": "kafka_server_BrokerTopicMetrics_BytesInPerSec_Count 42",
    "meter in a label, no rules at all": 'kafka_server_BrokerTopicMetrics_Count{name="BytesInPerSec",} 42',
    "an empty topic": 'kafka_server_brokertopicmetrics_bytesin_total{topic="",} 42',
    "with a time stamp": "kafka_server_brokertopicmetrics_bytesin_total 42 1763700000000",
}


def test_the_counters_of_an_exporter_with_rules_are_read() -> None:
    """An operator who follows the exporter's example gets everything that the pipeline wants."""
    found = read_exposition(BY_RULES)
    assert found.broker == {
        "bytes_in_total": 1.5e7,
        "replication_bytes_in_total": 7.0,
        "cpu_time_ns": 1.234e10,
        "processors": 4.0,
        "handler_idle_fraction": 0.97,
    }
    assert found.topics == {"orders": {"bytes_in_total": 9e6, "bytes_out_total": 3e6}}
    assert found.dropped == 0


@pytest.mark.parametrize("line", SAME_THING.values(), ids=SAME_THING.keys())
def test_the_names_in_use_mean_the_same(line: str) -> None:
    """With any rules of an exporter, the counter of bytes in is found."""
    found = read_exposition(line + "\n")
    assert found.broker == {"bytes_in_total": 42.0}
    assert found.topics == {}


@pytest.mark.parametrize(
    "line",
    [
        "kafka_server_brokertopicmetrics_bytesinpersec_oneminuterate 42",
        'kafka_server_BrokerTopicMetrics_OneMinuteRate{name="BytesInPerSec"} 42',
        "kafka_server_brokertopicmetrics_bytesinpersec 42",
        "kafka_server_brokertopicmetrics_failedfetchrequests_total 42",
        "kafka_server_replicamanager_partitioncount_value 42",
        'kafka_server_KafkaRequestHandlerPool_OneMinuteRate{name="SomethingElse"} 42',
    ],
)
def test_rates_and_strangers_are_not_taken_for_counters(line: str) -> None:
    """A one-minute rate taken for a total would make every load wrong."""
    found = read_exposition(line)
    assert (found.broker, found.topics, found.dropped) == ({}, {}, 0)


def test_cpu_is_in_nanoseconds_for_every_kind_of_counter() -> None:
    """The agent's own process_cpu_seconds_total serves where the operating system's bean is not exported."""
    assert read_exposition("process_cpu_seconds_total 12.5").broker == {"cpu_time_ns": 12.5e9}
    both = "jvm_os_processcputime 7e9\nprocess_cpu_seconds_total 12.5"
    assert read_exposition(both).broker == {"cpu_time_ns": 7e9}


def test_unusable_values_are_dropped_and_counted() -> None:
    """NaN, infinities, negative counters and torn lines never reach the lake, and are reported."""
    text = (
        "kafka_server_brokertopicmetrics_bytesin_total NaN\n"
        "kafka_server_brokertopicmetrics_bytesout_total +Inf\n"
        "kafka_server_brokertopicmetrics_messagesin_total -3\n"
        "kafka_server_brokertopicmetrics_replicationbytesin_total oops\n"
        'kafka_server_brokertopicmetrics_bytesin_total{topic="torn\n'
        "some_other_metric NaN\n"
        "java_lang_operatingsystem_processcputime 5"
    )
    found = read_exposition(text)
    assert found.broker == {"cpu_time_ns": 5.0}
    assert found.dropped == 5


def test_labels_are_unescaped() -> None:
    """A name with quotes and braces is that name."""
    text = r'kafka_server_brokertopicmetrics_bytesin_total{a="}",topic="x\"\\y{}"} 1'
    assert read_exposition(text).topics == {'x"\\y{}': {"bytes_in_total": 1.0}}


def test_the_narrow_reader_agrees_with_the_full_parser() -> None:
    """On a large exposition the figures are those that prometheus_client's own parser finds."""
    draw = random.Random(7)
    lines = ["# TYPE kafka_server_brokertopicmetrics_bytesin_total counter"]
    for topic in range(200):
        lines.append(
            f'kafka_server_brokertopicmetrics_bytesin_total{{topic="t-{topic}",}} {draw.random() * 1e12!r}'
        )
        lines.append(f'kafka_log_log_size_value{{topic="t-{topic}",partition="0"}} {draw.random()}')
    text = "\n".join(lines) + "\n"
    expected = {
        sample.labels["topic"]: {"bytes_in_total": sample.value}
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "kafka_server_brokertopicmetrics_bytesin_total"
    }
    assert len(expected) == 200
    assert read_exposition(text).topics == expected


EXPOSITIONS = Path(__file__).parent / "expositions"
TRAFFIC = {
    "bytes_in_total": 5_000_010.0,
    "bytes_out_total": 9_000_020.0,
    "replication_bytes_in_total": 4e6,
    "replication_bytes_out_total": 4.1e6,
    "messages_in_total": 70_010.0,
    "produce_requests_total": 120_000.0,
    "cpu_time_ns": 1234.5e9,
}
TOPICS = {
    "orders": {"bytes_in_total": 5e6, "bytes_out_total": 9e6, "messages_in_total": 7e4},
    "audit": {"bytes_in_total": 10.0},
}
IDLE = {"handler_idle_fraction": 0.97}


@pytest.mark.parametrize(
    ("name", "further"),
    [
        ("jmx-exporter-kafka-2_0_0", {}),
        ("jmx-exporter-kafka-kraft-3_0_0", IDLE),
        ("strimzi", IDLE),
        ("bitnami", IDLE | {"processors": 4.0}),
        ("msk-open-monitoring", IDLE),
    ],
)
def test_the_common_rule_sets_are_read(name: str, further: dict[str, float]) -> None:
    """The totals, the topics and CPU of one broker, whichever rules name them."""
    found = read_exposition((EXPOSITIONS / f"{name}.txt").read_text())
    assert found.broker == TRAFFIC | further
    assert found.topics == TOPICS
    assert found.lacking() == ""


def test_rules_that_give_rates_only_are_named_as_such() -> None:
    """cp-helm-charts: nothing is read, and each missing counter has the name that was found instead."""
    found = read_exposition((EXPOSITIONS / "cp-helm-charts.txt").read_text())
    assert (found.broker, found.topics) == ({}, {})
    assert "cp_kafka_server_brokertopicmetrics_bytesinpersec is not named as a counter" in found.lacking()
    assert "CPU is not balanced and bytes of all brokers are estimated" in found.lacking()


def test_a_declared_gauge_is_no_counter() -> None:
    """A one-minute rate under a counter's name is left out, with the reason; CPU is still read."""
    found = read_exposition(
        "# TYPE kafka_server_brokertopicmetrics_bytesin_total gauge\n"
        "kafka_server_brokertopicmetrics_bytesin_total 1000813.5\n"
        'kafka_server_brokertopicmetrics_bytesin_total{topic="orders"} 1000811.2\n'
        "# TYPE kafka_server_brokertopicmetrics_bytesout_total counter\n"
        "kafka_server_brokertopicmetrics_bytesout_total 5\n"
        "# TYPE process_cpu_seconds_total counter\n"
        "process_cpu_seconds_total 1234.5\n"
        "# TYPE kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent gauge\n"
        "kafka_server_kafkarequesthandlerpool_requesthandleravgidle_percent 0.9\n"
    )
    assert found.broker == {"bytes_out_total": 5.0, "cpu_time_ns": 1234.5e9, "handler_idle_fraction": 0.9}
    assert found.topics == {}
    assert (
        "bytes_in_total (kafka_server_brokertopicmetrics_bytesin_total is a gauge by its # TYPE line)"
        in found.lacking()
    )


OTHER_LABEL = """\
# TYPE kafka_server_brokertopicmetrics_bytesin_total counter
kafka_server_brokertopicmetrics_bytesin_total{kafka_topic="audit"} 10
kafka_server_brokertopicmetrics_bytesin_total{kafka_topic="orders"} 5000000
kafka_server_brokertopicmetrics_bytesin_total 5000010
"""


def test_a_sample_with_a_label_that_is_not_understood_is_no_total() -> None:
    """The line without labels is the broker's total, wherever it stands; the others are named."""
    found = read_exposition(OTHER_LABEL)
    assert found.broker == {"bytes_in_total": 5_000_010.0}
    assert found.topics == {}
    assert "label kafka_topic, which are not read: if it names the topic, set collect." in found.lacking()
    alone = read_exposition(OTHER_LABEL.splitlines()[1])
    assert alone.broker == {}
    assert "bytes_in_total (only with labels that are not understood: kafka_topic)" in alone.lacking()


@pytest.mark.parametrize(
    "cluster", [ClusterNames(topics={"orders", "audit", "idle"}), ClusterNames(topic_label="kafka_topic")]
)
def test_a_topic_label_of_another_name_is_verified_or_set(cluster: ClusterNames) -> None:
    """Its values are names of topics, or the settings name it."""
    found = read_exposition(OTHER_LABEL, cluster)
    assert found.broker == {"bytes_in_total": 5_000_010.0}
    assert found.topics == {"audit": {"bytes_in_total": 10.0}, "orders": {"bytes_in_total": 5e6}}
    assert not found.unread_topics


def test_a_topic_label_with_a_value_that_is_no_topic_is_not_taken() -> None:
    """One unknown value makes the label ambiguous."""
    found = read_exposition(OTHER_LABEL, ClusterNames(topics={"orders"}))
    assert found.topics == {}
    assert found.unread_topics


def test_lost_counters_are_reported_precisely() -> None:
    """Bytes out alone cost bytes out; bytes in cost the counters of all brokers."""
    counters = {"cpu_time_ns": 1.0, "bytes_in_total": 1.0, "replication_bytes_in_total": 1.0}
    told = BrokerCounters(counters).lacking()
    assert told.startswith("answers without bytes_out_total: bytes out of the broker are not known; give it")
    told = BrokerCounters({"cpu_time_ns": 1.0, "bytes_out_total": 1.0}).lacking()
    assert "bytes_in_total, replication_bytes_in_total: bytes of all brokers are estimated; give it" in told


def test_labels_that_every_sample_has_are_passed_over() -> None:
    """Labels of the target; and labels of any name next to a topic's."""
    found = read_exposition(
        'kafka_server_brokertopicmetrics_bytesin_total{cluster="a",dc="x",topic="orders"} 5\n'
        'kafka_server_brokertopicmetrics_bytesin_total{cluster="a",dc="x"} 7\n'
        'process_cpu_seconds_total{cluster="a"} 2\n'
    )
    assert found.broker == {"bytes_in_total": 7.0, "cpu_time_ns": 2e9}
    assert found.topics == {"orders": {"bytes_in_total": 5.0}}


def federated(label: str, *values: str) -> str:
    """Counters of several brokers behind one address; the nth has n bytes in and n seconds of CPU."""
    return "".join(
        f'kafka_server_brokertopicmetrics_bytesin_total{{{label}="{value}"}} {place}\n'
        f'kafka_server_brokertopicmetrics_bytesin_total{{{label}="{value}",topic="t"}} {place}\n'
        f'process_cpu_seconds_total{{{label}="{value}",job="kafka"}} {place}\n'
        for place, value in enumerate(values, 1)
    )


HOSTS = {1: "kafka-0.kafka.svc.local", 2: "kafka-1.kafka.svc.local", 3: "10.0.0.3"}


@pytest.mark.parametrize(
    ("label", "values"),
    [
        ("instance", ("kafka-0.kafka.svc.local:7071", "kafka-1.kafka.svc.local:7071", "10.0.0.3:7071")),
        ("pod", ("kafka-0", "kafka-1", "10.0.0.3")),
        ("broker_id", ("1", "2", "3")),
    ],
)
def test_several_brokers_behind_one_address_are_split(label: str, values: tuple[str, ...]) -> None:
    """Each broker gets its own counters and CPU, by host or by id."""
    for broker in HOSTS:
        found = read_exposition(federated(label, *values), ClusterNames(broker, HOSTS, sharing=(1, 2, 3)))
        assert found.broker == {"bytes_in_total": broker, "cpu_time_ns": broker * 1e9}
        assert found.topics == {"t": {"bytes_in_total": broker}}
        assert not found.error


@pytest.mark.parametrize(
    ("text", "cause"),
    [
        (federated("instance", "a:7071", "b:7071"), "answers for several brokers (label instance: a:7071,"),
        (federated("pod", "kafka-0"), "has the counters of broker 1 (label pod='kafka-0')"),
        (
            "kafka_server_brokertopicmetrics_bytesin_total 5",
            "is the endpoint of brokers 1, 2, and no label tells their counters apart",
        ),
    ],
)
def test_counters_that_may_be_another_brokers_are_refused(text: str, cause: str) -> None:
    """Labels that match no broker, one that matches another, and one address without labels for two."""
    found = read_exposition(text, ClusterNames(2, HOSTS, sharing=(1, 2)))
    assert (found.broker, found.topics) == ({}, {})
    assert cause in found.lacking()


def test_the_bean_of_the_broker_precedes_the_answering_process() -> None:
    """An exporter next to the broker reports its own CPU seconds."""
    text = "process_cpu_seconds_total 1\njvm_os_processcputime 7e9"
    assert read_exposition(text).broker == {"cpu_time_ns": 7e9}
