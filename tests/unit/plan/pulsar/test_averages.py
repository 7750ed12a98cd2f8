"""Running means, against Pulsar's formula worked out one bundle at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.bundle_views import key, report, stats, update_bundles
from trimtab.model.bundles.reports import BrokerReport, BundleStats
from trimtab.plan.pulsar.view import EMPTY_TABLE, BrokerLoad, LeaderLoadView, table_of, updated


def one(throughput: float) -> dict[str, BrokerReport]:
    """A lone broker with one bundle."""
    return {"a:1": report({key(0): stats(throughput, rate=1.0)})}


def test_the_first_sample_replaces_the_defaults() -> None:
    """An unknown bundle is taken to do 50 kB/s with no samples behind it, so that one sample is the mean."""
    data = update_bundles(EMPTY_TABLE, one(7.0).values())[key(0)]
    assert (data.short.samples, data.long.samples) == (1, 1)
    assert data.short.msg_throughput_in == 7.0
    assert data.long.msg_throughput_out == 0.0
    assert data.topics == 1


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=40))
def test_the_mean_is_pulsars_to_the_last_bit(samples: list[float]) -> None:
    """With n = min(n+1, max) the mean is ((n-1)*mean + x)/n in doubles: arrays must round as Java does."""
    table = EMPTY_TABLE
    short, short_count, long, long_count = 50000.0, 0, 50000.0, 0
    for sample in samples:
        table = update_bundles(table, one(sample).values())
        short_count, long_count = min(short_count + 1, 10), min(long_count + 1, 1000)
        short = ((short_count - 1) * short + sample) / short_count
        long = ((long_count - 1) * long + sample) / long_count
    data = table[key(0)]
    assert (data.short.msg_throughput_in, data.short.samples) == (short, short_count)
    assert (data.long.msg_throughput_in, data.long.samples) == (long, long_count)


def test_after_ten_samples_the_short_mean_forgets() -> None:
    """From the tenth on each new sample weighs a tenth, however long the bundle has been known."""
    table = EMPTY_TABLE
    for _ in range(30):
        table = update_bundles(table, one(100.0).values())
    table = update_bundles(table, one(200.0).values())
    assert table[key(0)].short.msg_throughput_in == pytest.approx(110.0)
    assert table[key(0)].long.msg_throughput_in == pytest.approx(100.0 + 100.0 / 31)


def test_a_bundle_without_reports_is_forgotten() -> None:
    """Its history is deleted: on return it starts again, as in Pulsar."""
    table = update_bundles(EMPTY_TABLE, one(100.0).values())
    table = update_bundles(table, [report({key(1): stats(1.0)})])
    assert key(0) not in table
    table = update_bundles(table, one(300.0).values())
    assert table[key(0)].short.msg_throughput_in == 300.0


def test_a_bundle_that_two_brokers_report_counts_twice() -> None:
    """While it changes hands both owners name it: two samples, in the order of the brokers."""
    both = [report({key(0): stats(100.0)}), report({key(0): stats(400.0)})]
    data = update_bundles(EMPTY_TABLE, both)[key(0)]
    assert (data.short.samples, data.short.msg_throughput_in) == (2, 250.0)


def test_a_moving_bundle_counts_for_each_broker_as_it_was_then() -> None:
    """The first broker's rate is added up before the second's sample is taken: 100, then (100 + 300) / 2."""
    moving = {key(0): stats(rate=100.0)}
    later = {key(0): stats(rate=300.0), key(1): stats(rate=5.0)}
    reports = {"a:1": report(moving), "b:1": report(later)}
    table, in_between = updated(EMPTY_TABLE, reports)
    assert in_between == {("a:1", key(0)): (100.0, 0.0)}
    brokers = {name: BrokerLoad(one) for name, one in reports.items()}
    view = LeaderLoadView(0.0, brokers, table, rates_in_between=in_between)
    assert view.long_term_rates == {"a:1": 100.0, "b:1": 205.0}


def test_bundles_retain_the_order_of_their_first_report() -> None:
    """New ones come last, whichever broker they are on: ties between bundles fall the same way each time."""
    table = update_bundles(EMPTY_TABLE, [report({key(5): stats(), key(3): stats()})])
    table = update_bundles(table, [report({key(9): stats(), key(3): stats()}), report({key(5): stats()})])
    assert table.names == (key(5), key(3), key(9))
    assert table.row[key(9)] == 2


def test_a_table_returns_its_input() -> None:
    """Bundle data as values and as a table are equal."""
    table = update_bundles(
        EMPTY_TABLE, [report({key(0): BundleStats(1.0, 2.0, 3.0, 4.0, topics=5), key(1): stats(9.0)})]
    )
    again = table_of({name: table[name] for name in table.names})
    assert [again[name] for name in again.names] == [table[name] for name in table.names]
    assert np.array_equal(again.short_throughput, [7.0, 9.0])
    assert np.array_equal(again.long_rate, [3.0, 0.0])
