"""Run the demo of a balancer, and end it in order when it is interrupted.

`trimtab demo` of a source checkout calls `run_demo`.
"""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from types import FrameType
from typing import Any, Final

from demos.broker_demo import Demo
from demos.screen import DemoOutput

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class DemoInterrupted(BaseException):
    """Somebody asked the process to end; `exit_code` is what shells expect then."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


@contextlib.contextmanager
def orderly() -> Iterator[None]:
    """Within the block the first signal raises `DemoInterrupted`; further ones do not disturb the clearing
    up.
    """
    before = {number: signal.getsignal(number) for number in SIGNALS}

    def interrupt(number: int, _: FrameType | None) -> None:
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise DemoInterrupted(number)

    for number in SIGNALS:
        # What a shell switched off (nohup) stays off.
        if before[number] is not signal.SIG_IGN:
            signal.signal(number, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


FOLDERS: Final = {
    "replicas": "trimtab-demo",
    "bundles": "trimtab-demo-bundles",
    "queues": "trimtab-demo-queues",
    "keys": "trimtab-demo-keys",
    "masters": "trimtab-demo-masters",
    "serve": "trimtab-demo-serve",
}
"""The folder that keeps the result of a demo, by balancer."""
DEMOS: Final = {
    "replicas": "demos.replicas:ReplicasDemo",
    "bundles": "demos.bundles:BundlesDemo",
}
STORIES: Final = {
    "queues": "demos.queues",
    "keys": "demos.keys",
    "masters": "demos.masters",
    "serve": "demos.serve",
}
"""Demos without brokers that anything is moved between, which have stories of their own."""


def run_demo(balancer: str, seed: int, settings: Any, out: Path, *, quick: bool) -> int:
    """Tell the demo of a balancer on standard output; its exit code."""
    if balancer in STORIES:
        own = import_module(STORIES[balancer])
        return 0 if own.run(DemoOutput(sys.stdout, own.STEPS), out, seed, settings, quick=quick) else 1
    from demos import broker_demo

    screen = DemoOutput(sys.stdout, broker_demo.STEPS)
    return broker_demo.run_demo(screen, out, demo_of(balancer, seed, settings, quick=quick)).exit_code


def demo_of(balancer: str, seed: int, settings: object, *, quick: bool) -> Demo[Any, Any, Any, Any]:
    """A balancer's part in the story; `settings` are those of its planner."""
    place, _, name = DEMOS[balancer].partition(":")
    module = import_module(place)
    demo: Demo[Any, Any, Any, Any] = getattr(module, name)(
        module.QUICK if quick else module.TIMES, seed, settings
    )
    return demo
