"""What brokers publish under the extensible load manager, message by message."""

from trimtab.systems.pulsar.reports import LatestValues, SampleErrors, published_bundles, published_report

BROKER = (
    b'{"cpu":{"usage":184.9,"limit":200.0},"memory":{"usage":71.5,"limit":247.5},"directMemory":{"usage":8.0,'
    b'"limit":128.0},"bandwidthIn":{"usage":0.0,"limit":1000000.0},"bandwidthOut":{"usage":0.0,"limit":1000000.0},'
    b'"msgThroughputIn":384.8,"msgThroughputOut":1019.6,"msgRateIn":0.8,"msgRateOut":2.0,"bundleCount":5,"topics":5,'
    b'"maxResourceUsage":0.92,"weightedMaxEMA":0.32,"msgThroughputEMA":2144.6,"updatedAt":1795287551048,'
    b'"reportedAt":1795287546056}'
)
BUNDLES = (
    b'{"topBundlesLoadData":[{"bundleName":"t/n/0x00000000_0x80000000","stats":{"msgRateIn":1.0,'
    b'"msgThroughputIn":2.0,"msgRateOut":3.0,"msgThroughputOut":4.0,"consumerCount":1,"producerCount":2,'
    b'"topics":3,"cacheSize":0}},{"bundleName":"nonsense","stats":{}}]}'
)
"""As a broker of Pulsar 4.2.4 writes them."""


def test_the_newest_report_of_each_broker_counts_and_a_dead_one_has_none():
    """An empty message means that its broker has left."""
    latest = LatestValues()
    latest.update("b1:8080", b'{"updatedAt": 1}')
    latest.update("b1:8080", BROKER)
    latest.update("b2:8080", BROKER)
    latest.update("b2:8080", b"")
    latest.update("b3:8080", b"not json")
    latest.update("b4:8080", b"[]")
    assert list(latest.all()) == ["b1:8080"]
    assert latest.unreadable == 2
    faults = SampleErrors()
    report = published_report(latest.all()["b1:8080"], "b1:8080", faults)
    assert report.usage["cpu"] == (184.9, 200.0)
    assert (report.weighted_max_ema, report.msg_throughput_ema) == (0.32, 2144.6)
    assert report.traffic["msg_rate_out"] == 2.0
    assert faults.count == 0


def test_top_bundles_are_read_in_their_order_and_nonsense_is_left_out():
    """The leader of such a cluster knows of no other bundles."""
    latest, faults = LatestValues(), SampleErrors()
    latest.update("b1:8080", BUNDLES)
    found = published_bundles(latest.all()["b1:8080"], "b1:8080", faults)
    assert list(found) == ["t/n/0x00000000_0x80000000"]
    assert found["t/n/0x00000000_0x80000000"]["producers"] == 2
    assert "is no bundle's name" in faults.sentences()[0]
