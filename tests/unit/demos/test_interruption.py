"""Ending early, in order."""

import os
import signal
from collections.abc import Iterator

import pytest

from demos.run import SIGNALS, DemoInterrupted, orderly


@pytest.fixture(autouse=True)
def asked() -> Iterator[None]:
    """Signals as a terminal leaves them: tests that run under nohup ignore SIGHUP, and so would the code."""
    before = {number: signal.getsignal(number) for number in SIGNALS}
    for number in SIGNALS:
        signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_every_signal_ends_the_demo_in_the_same_manner(number):
    """Ctrl-C, kill and a closed terminal each run the clearing up and give the shell its usual code."""
    cleared = []
    with pytest.raises(DemoInterrupted) as found, orderly():
        try:
            os.kill(os.getpid(), number)
        finally:
            cleared.append(True)
    assert cleared
    assert found.value.exit_code == 128 + number


def test_an_impatient_second_ctrl_c_does_not_cut_the_clearing_up_short():
    """While brokers are being stopped, more signals change nothing."""
    cleared = []
    with pytest.raises(DemoInterrupted), orderly():
        try:
            os.kill(os.getpid(), signal.SIGINT)
        finally:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGTERM)
            cleared.append(True)
    assert cleared


def test_signal_handlers_are_restored():
    """After the block, signals do what they did before."""
    before = [signal.getsignal(number) for number in SIGNALS]
    with orderly():
        pass
    assert [signal.getsignal(number) for number in SIGNALS] == before
