"""The skewed load: drawn from a seed, bounded, and saved as a document."""

import statistics

import pytest

from trimtab.lab.sandbox.kafka.workload import read_workload, skewed, workload_from_json
from trimtab.model.errors import SandboxError


def test_the_same_seed_draws_the_same_load():
    """An experiment that names its seed can be repeated."""
    assert skewed(7) == skewed(7)
    assert skewed(7) != skewed(8)


@pytest.mark.parametrize("seed", range(20))
def test_every_draw_has_the_requested_rate_and_no_giant(seed):
    """No partition is too big for any placement to balance it, and all rates add up."""
    load = skewed(seed, 8e6, brokers=6)
    rates = [rate for topic in load.topics for rate in topic.bytes_per_second]
    assert load.bytes_in_per_second == pytest.approx(8e6)
    assert max(rates) <= 0.55 * 8e6 / 6 * (1 + 1e-9)
    assert 0 < load.consumers <= 2


@pytest.mark.parametrize("seed", range(5))
def test_rates_differ_enough_to_need_balancing(seed):
    """The load is skewed: its live partitions are far from equal."""
    rates = [rate for topic in skewed(seed).topics for rate in topic.bytes_per_second if rate]
    assert statistics.pstdev(rates) > 0.5 * statistics.mean(rates)


def test_archives_hold_data_and_get_none():
    """Disk is uneven by itself, not only where traffic is."""
    archives = [topic for topic in skewed(3).topics if topic.preload_bytes]
    assert sum(topic.partitions for topic in archives) == 7
    assert all(not any(topic.bytes_per_second) for topic in archives)


def test_a_load_is_read_back_as_it_was_written(tmp_path):
    """A load can be stored with its results."""
    (tmp_path / "load.json").write_text(skewed(5).to_json())
    assert read_workload(tmp_path / "load.json") == skewed(5)


def test_scaling_changes_rates_alone():
    """A smaller machine takes the same load at half the rate."""
    half = skewed(5).scaled(0.5)
    assert half.bytes_in_per_second == pytest.approx(4e6)
    assert [topic.preload_bytes for topic in half.topics] == [
        topic.preload_bytes for topic in skewed(5).topics
    ]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format": "trimtab/workload/1"}'])
def test_another_document_is_refused(text):
    """An invalid workload file is reported as such."""
    with pytest.raises(SandboxError, match="not a workload"):
        workload_from_json(text)


def test_too_many_brokers_for_the_load_are_refused():
    """A cap below the mean rate is impossible, and the message names the setting."""
    with pytest.raises(SandboxError, match="use fewer brokers"):
        skewed(5, 8e6, brokers=60)
