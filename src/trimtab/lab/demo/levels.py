"""The levels that have a demo, a row each."""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path
from typing import Any, Final

from trimtab.lab.demo.part import Demo
from trimtab.lab.demo.screen import Screen

FOLDERS: Final = {
    "replicas": "trimtab-demo",
    "bundles": "trimtab-demo-bundles",
    "queues": "trimtab-demo-queues",
}
"""The folder that keeps the result of a demo, by level."""
DEMOS: Final = {
    "replicas": "trimtab.lab.demo.replicas.demo:ReplicasDemo",
    "bundles": "trimtab.lab.demo.bundles.demo:BundlesDemo",
}


def told(level: str, seed: int, settings: Any, out: Path, *, quick: bool) -> bool:
    """Tell the demo of a level on standard output; whether it ended well.

    That of `queues` has no brokers to move anything between, and a story of its own.
    """
    if level == "queues":
        from trimtab.lab.demo.queues import demo as queues

        return queues.tell(Screen(sys.stdout, queues.STEPS), out, seed, settings, quick=quick)
    from trimtab.lab.demo.story import STEPS, tell

    return tell(Screen(sys.stdout, STEPS), out, demo_of(level, seed, settings, quick=quick)).ok


def demo_of(level: str, seed: int, settings: object, *, quick: bool) -> Demo[Any, Any, Any, Any]:
    """A level's part in the story; `settings` are those of its planner."""
    place, _, name = DEMOS[level].partition(":")
    module = import_module(place)
    demo: Demo[Any, Any, Any, Any] = getattr(module, name)(
        module.QUICK if quick else module.PACE, seed, settings
    )
    return demo
