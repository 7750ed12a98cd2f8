"""Failed records: named, and told apart by what was going on."""

from demos.machine import BOTH, MACHINE, MOVE, NEITHER, MachineCounters, MachineLog, failures, failures_lines
from trimtab.lab.sandbox.truth import TruthTick


def machine(busy_from: float, busy_to: float, cores: int = 2, stall_at: float | None = None) -> MachineLog:
    """A log of 100 s: nobody has anything to do, but for one stretch in which all cores are busy."""
    log = MachineLog()
    log.readings = []
    busy = idle = 0.0
    for step in range(200):
        at = step / 2
        is_busy = busy_from <= at < busy_to
        busy, idle = busy + is_busy * cores / 2, idle + (not is_busy) * cores / 2
        log.readings.append(MachineCounters(at, busy, idle, 0.0, 3.0 if at == stall_at else 0.0))
    return log


def tick(at: float, waited: float = 0.0, **causes: int) -> TruthTick:
    """A second in which records were given up that had been sent before."""
    return TruthTick(
        "producer", at, 1.0, errors=sum(causes.values()), causes=causes, waited_since=at - waited
    )


def test_a_failure_during_the_move_is_the_moves(monkeypatch):
    """On an idle machine, what was sent while roles moved is counted there, by the error's name."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    found = failures([tick(20.0, NotLeaderOrFollowerError=3)], (18.0, 21.0), machine(0, 0))
    assert found == {MOVE: {"NotLeaderOrFollowerError": 3}}
    assert failures_lines(found) == ["failed while the plan was carried out: 3 NotLeaderOrFollowerError"]


def test_a_record_that_waited_through_the_move_counts_as_the_moves(monkeypatch):
    """It was given up long after the move, and sent before its end."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    waited = failures([tick(45.0, waited=26.0, KafkaTimeoutError=1)], (18.0, 21.0), machine(0, 0))
    assert list(waited) == [MOVE]
    assert list(failures([tick(45.0, KafkaTimeoutError=1)], (18.0, 21.0), machine(0, 0))) == [NEITHER]


def test_an_overloaded_machine_is_distinguished(monkeypatch):
    """All cores busy, a pause of the whole machine, or late clients: not caused by the move."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    failed = tick(60.0, waited=5.0, KafkaTimeoutError=7)
    moving = (18.0, 21.0)
    late = TruthTick("producer", 57.0, 1.0, late_records=4)
    assert list(failures([failed], moving, machine(50, 65))) == [MACHINE]
    assert list(failures([failed], moving, machine(0, 0, stall_at=58.0))) == [MACHINE]
    assert list(failures([late, failed], moving, machine(0, 0))) == [MACHINE]
    assert list(failures([failed], (56.0, 57.0), machine(50, 65))) == [BOTH]
    assert list(failures([failed], None, machine(0, 0))) == [NEITHER]
    waited_long = tick(95.0, waited=90.0, KafkaTimeoutError=1)
    assert list(failures([waited_long], None, machine(40, 56))) == [MACHINE]


def test_without_failures_nothing_is_reported():
    """A quiet load gives no line."""
    assert failures_lines(failures([tick(1.0)], (0.0, 2.0), machine(0, 0))) == []
