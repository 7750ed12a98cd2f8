"""How fast, how much at once, and what is said about it beforehand and meanwhile."""

from dataclasses import replace
from typing import Any

import pytest

from support.executing import SETTINGS, prepared, run
from support.fake_port import FakeCluster
from support.journals import CODECS
from support.plans import REASON, plan_of
from trimtab.act.control import prepare
from trimtab.act.journal import Journal
from trimtab.act.replicas.executor import EXECUTOR, receipt_of
from trimtab.act.replicas.load_check import ProgressMeter, forecast
from trimtab.act.replicas.overrides import desired_config, first_rate, next_copies_per_broker, next_rate
from trimtab.act.replicas.port import NetworkHeadroom, ThrottleConfig, TopicPartition
from trimtab.act.replicas.state import ReplicasExecutionSettings, ReplicaStepKind, ThrottleMemory
from trimtab.model.replicas.plan import ReplicaAssignment, ReplicaMove, ReplicaMoveKind
from trimtab.report.formats import duration_text
from trimtab.report.replicas.renderer import progress_text, receipt_text
from trimtab_common.errors import SettingsError

AUTO = ReplicasExecutionSettings()


@pytest.fixture
def cluster() -> FakeCluster:
    """Six partitions of 200 MB on brokers 1 and 2."""
    made = FakeCluster()
    for number in range(6):
        made.add("t", number, [1, 2], size=200_000_000)
    return made


MIXED = replace(
    plan_of(("t", 0, (1, 2), (3, 2))),
    moves=(
        *plan_of(("t", 0, (1, 2), (3, 2))).moves,
        ReplicaMove(2, ReplicaMoveKind.LOG_DIR, "t", 1, 1, 1, 700, REASON, "/d0", "/d1"),
    ),
    assignments=(
        *plan_of(("t", 0, (1, 2), (3, 2))).assignments,
        ReplicaAssignment("t", 1, (1, 2), (1, 2), 1),
    ),
)
PLAN = plan_of(*[("t", n, (1, 2), (3 + n % 3, 2)) for n in range(6)])


def test_the_lists_name_moved_replicas_and_are_restored(cluster: FakeCluster) -> None:
    """Sources are the old replicas, destinations the new ones; a topic that is through gets its old list."""
    steps = prepare(EXECUTOR, cluster, plan_of(("t", 0, (1, 2), (3, 2)))).steps
    memory = ThrottleMemory(
        ThrottleConfig("5", None, {"t": None, "earlier": "*"}, {"t": None, "earlier": None}),
        rates_touched=True,
    )
    wanted = desired_config(memory, 1e6, steps)
    assert wanted == ThrottleConfig(
        "1000000", "1000000", {"t": "0:1,0:2", "earlier": "*"}, {"t": "0:3", "earlier": None}
    )
    assert desired_config(memory, None, []) == memory.original


def test_auto_begins_with_half_of_the_tightest_network() -> None:
    """The broker with the least free network decides; unknown or unlimited networks leave the default."""
    headroom = {
        1: NetworkHeadroom(80e6, 40e6),
        2: NetworkHeadroom(200e6, 200e6),
        3: NetworkHeadroom(float("inf"), float("inf")),
    }
    assert first_rate(AUTO, headroom, [1, 2]) == 20e6
    assert first_rate(AUTO, headroom, [2]) == 100e6
    assert first_rate(AUTO, headroom, [3]) == AUTO.throttle_initial_bytes_per_second
    assert first_rate(AUTO, {}, [1]) == AUTO.throttle_initial_bytes_per_second
    assert first_rate(replace(AUTO, throttle="none"), headroom, [1]) is None
    assert first_rate(replace(AUTO, throttle=7e6), headroom, [1]) == 7e6


def test_trouble_halves_and_quiet_adds() -> None:
    """Additive increase, multiplicative decrease, within bounds; a requested number stays."""
    assert next_rate(AUTO, 40e6, 100e6, healthy=False) == 20e6
    assert next_rate(AUTO, 1.5e6, 100e6, healthy=False) == AUTO.throttle_min_bytes_per_second
    assert next_rate(AUTO, 40e6, 100e6, healthy=True) == 50e6
    assert next_rate(AUTO, 95e6, 100e6, healthy=True) == 100e6
    assert next_rate(replace(AUTO, throttle=9e6), 9e6, 100e6, healthy=False) == 9e6
    assert next_copies_per_broker(AUTO, 5, healthy=False) == 2
    assert next_copies_per_broker(AUTO, 1, healthy=False) == 1
    assert next_copies_per_broker(AUTO, 20, healthy=True) == 20


def test_trouble_slows_a_running_execution_down(cluster: FakeCluster, tmp_path) -> None:
    """A partition goes offline while we copy: the throttle is lowered meanwhile, and raised again after."""
    cluster.add("other", 0, [6], size=1)
    cluster.add("other", 1, [5], size=1)
    rates = []
    settings = replace(
        AUTO, initial_copies_per_broker=1, check_interval_seconds=0.5, throttle_initial_bytes_per_second=20e6
    )

    def trouble(state) -> None:
        rates.append(state.rate_bytes_per_second)
        other = cluster.parts[TopicPartition("other", 0)]
        other.leader = None if 1_000_003 < cluster.now < 1_000_006 else 6

    state = run(cluster, prepared(cluster, PLAN, settings), tmp_path, watch=trouble)
    assert state.status == "finished"
    told = [rate for rate in rates if rate is not None]
    assert min(told) < told[0] / 3
    assert told[-1] == told[0]


def test_the_forecast_equals_the_execution(cluster: FakeCluster, tmp_path) -> None:
    """As many batches and bytes as foretold, when nothing goes wrong."""
    settings = replace(SETTINGS, initial_copies_per_broker=2)
    steps = prepare(EXECUTOR, cluster, PLAN).steps
    told = forecast(steps, prepare(EXECUTOR, cluster, PLAN).observation, cluster.now, settings)
    state = run(cluster, prepared(cluster, PLAN, settings), tmp_path)
    with Journal(tmp_path / "journal.sqlite", CODECS) as journal:
        receipt = receipt_of(journal.entry(1), state, None)
    assert (len(told.batches), told.bytes) == (receipt.batches, receipt.copied_bytes)
    assert told.bytes == 6 * 200_000_000
    assert told.rate_bytes_per_second == settings.fixed_rate


def test_moves_between_log_dirs_are_a_batch_of_their_own_in_the_forecast_too(
    cluster: FakeCluster, tmp_path
) -> None:
    """Kafka has one request for copies and another for log dirs, so a mixed choice is two batches."""
    steps = prepare(EXECUTOR, cluster, MIXED).steps
    told = forecast(steps, prepare(EXECUTOR, cluster, MIXED).observation, cluster.now, SETTINGS)
    state = run(cluster, prepared(cluster, MIXED, SETTINGS), tmp_path)
    assert state.status == "finished"
    kinds = [{step.kind for step in batch.steps} for batch in told.batches]
    assert kinds[:2] == [{ReplicaStepKind.COPY}, {ReplicaStepKind.LOG_DIR}]
    assert len(told.batches) == state.batches == 2


def test_progress_counts_down(cluster: FakeCluster, tmp_path) -> None:
    """Bytes left fall to zero, and rate and remaining time are reported meanwhile."""
    meter = ProgressMeter()
    figures = []
    run(cluster, prepared(cluster, PLAN), tmp_path, watch=lambda state: figures.append(meter(state)))
    left = [figure.bytes_left for figure in figures]
    assert left[0] == 1_200_000_000
    assert left == sorted(left, reverse=True)
    assert left[-1] == 0
    middle = next(figure for figure in figures if 0 < figure.bytes_left < 600_000_000)
    assert middle.bytes_per_second > 0
    assert middle.seconds_left == pytest.approx(middle.bytes_left / middle.bytes_per_second)
    line = progress_text(middle)
    assert " left of 1.2 GB" in line
    assert "/s" in line


def test_a_receipt_lists_remaining_steps_with_reasons(cluster: FakeCluster, tmp_path) -> None:
    """A deleted topic is named."""
    state = prepared(cluster, PLAN)
    cluster.delete("t")
    state = run(cluster, state, tmp_path)
    with Journal(tmp_path / "journal.sqlite", CODECS) as journal:
        text = receipt_text(receipt_of(journal.entry(1), state, None))
    assert "execution 1 on fake: incomplete" in text
    assert "left: t-0 [1, 2] -> [3, 2]: skipped, t has been deleted" in text


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.21, "4.2 s"), (42.4, "42 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")]
)
def test_durations_are_rounded(seconds: float, text: str) -> None:
    """As precise as anyone cares for."""
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"throttle": "fast"}, "execution.throttle is 'fast': write auto, none, or bytes per second"),
        ({"throttle": -1}, "execution.throttle is -1"),
        ({"initial_copies_per_broker": 0}, "execution.initial_copies_per_broker is 0: it must be above 0"),
        ({"disk_reserve_fraction": 1.5}, "execution.disk_reserve_fraction is 1.5: it must be 0 to below 1"),
    ],
)
def test_settings_that_cannot_work_are_refused(values: dict[str, Any], message: str) -> None:
    """Each names the setting, the value and what it must be."""
    with pytest.raises(SettingsError, match=message):
        ReplicasExecutionSettings(**values)
