"""What a load on Pulsar does, as a document and as a draw."""

from typing import Any

import pytest

from trimtab.lab.sandbox.pulsar.namespaces import bundles_of, uneven_places
from trimtab.lab.sandbox.pulsar.workload import (
    NamespaceLoad,
    PulsarTopicLoad,
    PulsarWorkload,
    read_workload,
    skewed,
    workload_from_json,
)
from trimtab.model.bundles.snapshot import topic_hash
from trimtab.model.errors import SandboxError


class _Halves:
    """An admin API whose namespaces have two bundles."""

    def boundaries(self, namespace: str) -> tuple[int, ...]:
        return (0, 0x80000000, 0xFFFFFFFF)


def test_a_workload_is_read_back_as_it_was_written(tmp_path):
    """A load can be kept and run again."""
    (tmp_path / "load.json").write_text(skewed().to_json())
    assert read_workload(tmp_path / "load.json") == skewed()


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "trimtab/pulsar-workload/1", "bundles": 1}'])
def test_something_else_is_no_workload(text):
    """The message states why it is invalid, and how to get a workload."""
    with pytest.raises(SandboxError, match="not a workload of trimtab for Pulsar"):
        workload_from_json(text)


def test_a_file_that_is_not_there_is_named(tmp_path):
    """One sentence, no traceback."""
    with pytest.raises(SandboxError, match="absent.json cannot be read: No such file"):
        read_workload(tmp_path / "absent.json")


def test_the_skewed_load_has_the_requested_rates_and_is_uneven():
    """The rates add up; the busiest topic has many times the median's."""
    load = skewed(seed=3, messages_per_second=500.0)
    rates = sorted(topic.messages_per_second for _, topic in load.topics)
    assert sum(rates) == pytest.approx(500.0)
    assert rates[-1] > 4 * rates[len(rates) // 2]
    assert load.consumers == 2
    assert load == skewed(seed=3, messages_per_second=500.0)
    assert load != skewed(seed=4, messages_per_second=500.0)


def test_its_topics_fall_into_many_bundles():
    """Names of running numbers would have hashes in half of the bundles only."""
    names = [name for name, _ in skewed().topics]
    eighths = {(name.split("/")[3], topic_hash(name) >> 29) for name in names}
    assert len(names) == len(set(names)) == 40
    assert len(eighths) >= 13


def test_each_topic_is_found_in_its_bundle():
    """As Pulsar itself hashes it."""
    topics = tuple(PulsarTopicLoad(f"t{index}", 1.0) for index in range(20))
    halves: Any = _Halves()
    found = bundles_of(halves, PulsarWorkload((NamespaceLoad("a/b", 2, topics),)))
    assert sum(map(len, found.values())) == 20
    for topic in found["a/b/0x00000000_0x80000000"]:
        assert topic_hash(topic) < 0x80000000
    for topic in found["a/b/0x80000000_0xffffffff"]:
        assert topic_hash(topic) >= 0x80000000


def test_places_give_each_broker_about_its_share():
    """The heaviest bundle goes to who is to carry most; nothing is left over."""
    topics = tuple(PulsarTopicLoad(str(rate), float(rate)) for rate in (60, 20, 10, 5, 3, 2))
    workload = PulsarWorkload((NamespaceLoad("a/b", 6, topics),))
    bundles = {f"bundle of {name}": [name] for name, _ in workload.topics}
    places = uneven_places(workload, bundles, {"x": 6.0, "y": 3.0, "z": 1.0})
    by_broker = {broker: [bundle for bundle in places if places[bundle] == broker] for broker in "xyz"}
    assert by_broker["x"] == ["bundle of persistent://a/b/60"]
    assert set(places) == set(bundles)
    assert len(by_broker["y"]) + len(by_broker["z"]) == 5
