"""Samples of a busy machine: found, taken again, and left out of the figures."""

import datetime
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from demos.machine import MachineCounters, MachineLoad, MachineLog, check_sample
from demos.sampling import MAX_TICKS, SampledSandbox
from trimtab.lab.sandbox.truth import Traffic, TruthTick

IDLE = MachineLoad(outside_cores=0.1, idle_cores=0.8, cores=2, stall_seconds=0.0)
NAN = float("nan")


def load(begin: float, done: int = 100) -> list[TruthTick]:
    """Ten seconds in each of which 100 bytes are due."""
    due, confirmed = {"t:0": Traffic(1, 100)}, {"t:0": Traffic(1, done)}
    return [TruthTick("producer", begin + second, 1.0, due, confirmed) for second in range(10)]


@pytest.mark.parametrize(
    ("breath", "done", "reason"),
    [
        (IDLE, 100, ""),
        (IDLE, 93, ""),
        (IDLE, 90, "producers got 90% of what was due confirmed"),
        (MachineLoad(1.4, 0.1, 2, 0.0), 100, "other programs used 1.4 cores"),
        (MachineLoad(1.4, 2.1, 4, 0.0), 100, ""),
        (MachineLoad(NAN, NAN, 2, 0.0), 100, ""),
    ],
)
def test_a_sample_counts_unless_load_or_machine_were_not_as_they_should(breath, done, reason):
    """Other programs disturb only if less than a core is left; a missing measurement does no harm."""
    found = check_sample(load(50.0, done), breath, 50.0, 60.0)
    assert (found.reason, found.valid) == (reason, not reason)


def test_foreign_cpu_time_is_the_machines_time_minus_the_demos(monkeypatch):
    """Two cores, ten seconds: 12 s busy, 9 of them by the demo."""
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    log = MachineLog()
    log.readings = [MachineCounters(50.0, 100.0, 20.0, 30.0), MachineCounters(60.0, 112.0, 28.0, 39.0, 1.5)]
    found = log.between(50.0, 60.0)
    assert (found.outside_cores, found.idle_cores) == pytest.approx((0.3, 0.8))
    assert found.stall_seconds == 1.5
    assert found.lacking
    assert found.text == "60% busy, 0.3 of 2 cores by other programs, still for up to 1.5 s"


def test_the_log_counts_the_own_work_as_own():
    """Computation of the demo counts as its own, however long a busy machine takes for it."""
    if not Path("/proc/stat").exists():
        pytest.skip("no /proc here")
    log = MachineLog()
    begun, deadline = time.process_time(), time.monotonic() + 60

    def on_time() -> list[MachineCounters]:
        """A late reading has its two clocks from moments that are apart: 0.17 s on a busy machine."""
        return [one for one in log.readings if one.late_seconds < 0.1]

    with log.running():
        while len(on_time()) < 2 or on_time()[-1].own_seconds - on_time()[0].own_seconds < 0.5:
            sum(range(10_000))
            assert time.monotonic() < deadline, "none of our time was seen"
    first, last = on_time()[0], on_time()[-1]
    assert last.own_seconds - first.own_seconds <= time.process_time() - begun + 0.1
    assert last.busy - first.busy >= last.own_seconds - first.own_seconds - 0.1


class Machine:
    """A machine on which other programs are busy during the first so many samples."""

    def __init__(self, disturbed: int) -> None:
        self.disturbed = disturbed
        self.load: list[float] = []

    def between(self, begin: float, _end: float) -> MachineLoad:
        """The same answer for the same sample."""
        if begin not in self.load:
            self.load.append(begin)
        return MachineLoad(1.8, 0.0, 2, 0.0) if self.load.index(begin) < self.disturbed else IDLE


def sampled(disturbed: int, wanted: int):
    """A period of samples a second apart in their own time, as fast as they are taken."""
    start = datetime.datetime.now(datetime.UTC) + datetime.timedelta(hours=1)
    ticks = [
        TruthTick("producer", start.timestamp() + at, 1.0, {"t": Traffic(1, 10)}, {"t": Traffic(1, 10)})
        for at in range(60)
    ]
    clients: Any = SimpleNamespace(require_running=lambda: None, ticks=lambda: iter(ticks))
    nothing: Any = None
    sampling = SampledSandbox(nothing, clients, nothing, 1.0)

    def land() -> None:
        for second in range(60):
            tick = start + datetime.timedelta(seconds=second)
            result: Any = SimpleNamespace(problem=None, sample=SimpleNamespace(problems=()), tick=tick)
            sampling.record_tick(result)
            time.sleep(0.02)

    threading.Thread(target=land, daemon=True).start()
    machine: Any = Machine(disturbed)
    return sampling.sample(wanted, machine=machine)


def test_disturbed_samples_are_repeated_and_reported():
    """Two of the first four are disturbed: watching goes on until four are sound."""
    period = sampled(2, 4)
    assert period.ticks - len(period.disturbed) >= 4
    assert len(period.disturbed) == 2
    assert not period.too_busy
    assert period.warning.endswith("samples were disturbed (other programs used 1.8 cores) and taken again")


def test_waiting_for_a_calm_machine_has_an_end():
    """If the machine never becomes quiet, the existing samples are used and marked as no measurement."""
    period = sampled(99, 3)
    assert period.ticks >= MAX_TICKS * 3
    assert period.too_busy
    assert period.warning.startswith("this machine is too busy: 0 of ")
