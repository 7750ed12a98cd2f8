"""The levels that have a demo, a row each."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from trimtab.lab.demo.part import Demo

FOLDERS: Final = {"replicas": "trimtab-demo", "bundles": "trimtab-demo-bundles"}
"""The folder that keeps the result of a demo, by level."""
DEMOS: Final = {
    "replicas": "trimtab.lab.demo.replicas.demo:ReplicasDemo",
    "bundles": "trimtab.lab.demo.bundles.demo:BundlesDemo",
}


def demo_of(level: str, seed: int, settings: object, *, quick: bool) -> Demo[Any, Any, Any, Any]:
    """A level's part in the story; `settings` are those of its planner."""
    place, _, name = DEMOS[level].partition(":")
    module = import_module(place)
    demo: Demo[Any, Any, Any, Any] = getattr(module, name)(
        module.QUICK if quick else module.PACE, seed, settings
    )
    return demo
