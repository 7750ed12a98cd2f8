"""The balancers that have a demo, a row each."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from trimtab.lab.demo.part import Demo
from trimtab.lab.demo.screen import DemoOutput

FOLDERS: Final = {
    "replicas": "trimtab-demo",
    "bundles": "trimtab-demo-bundles",
    "queues": "trimtab-demo-queues",
    "keys": "trimtab-demo-keys",
    "masters": "trimtab-demo-masters",
}
"""The folder that keeps the result of a demo, by balancer."""
DEMOS: Final = {
    "replicas": "trimtab.lab.demo.replicas.demo:ReplicasDemo",
    "bundles": "trimtab.lab.demo.bundles.demo:BundlesDemo",
}
STORIES: Final = {
    "queues": "trimtab.lab.demo.queues.demo",
    "keys": "trimtab.lab.demo.keys.demo",
    "masters": "trimtab.lab.demo.masters.demo",
}
"""Demos without brokers that anything is moved between, which have stories of their own."""


def run_demo(balancer: str, seed: int, settings: Any, out: Path, *, quick: bool) -> int:
    """Tell the demo of a balancer on standard output; its exit code."""
    if balancer in STORIES:
        own = import_module(STORIES[balancer])
        return 0 if own.run(DemoOutput(sys.stdout, own.STEPS), out, seed, settings, quick=quick) else 1
    from trimtab.lab.demo.story import STEPS, run_demo

    return run_demo(
        DemoOutput(sys.stdout, STEPS), out, demo_of(balancer, seed, settings, quick=quick)
    ).exit_code


def demo_of(balancer: str, seed: int, settings: object, *, quick: bool) -> Demo[Any, Any, Any, Any]:
    """A balancer's part in the story; `settings` are those of its planner."""
    place, _, name = DEMOS[balancer].partition(":")
    module = import_module(place)
    demo: Demo[Any, Any, Any, Any] = getattr(module, name)(
        module.QUICK if quick else module.TIMES, seed, settings
    )
    return demo
