"""Picking a broker's counters out of what JMX exporters give."""

import random

import pytest
from prometheus_client.parser import text_string_to_metric_families

from trimtab.observe.collect.kafka.exposition import read_exposition

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
    """Whatever rules an exporter has, the counter of bytes in is found."""
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


def test_cpu_comes_in_nanoseconds_whichever_counter_there_is() -> None:
    """The agent's own process_cpu_seconds_total serves where the operating system's bean is not exported."""
    assert read_exposition("process_cpu_seconds_total 12.5").broker == {"cpu_time_ns": 12.5e9}
    both = "jvm_os_processcputime 7e9\nprocess_cpu_seconds_total 12.5"
    assert read_exposition(both).broker == {"cpu_time_ns": 7e9}


def test_unusable_values_are_dropped_and_counted() -> None:
    """NaN, infinities, negative counters and torn lines never reach the lake, and are not silent."""
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
