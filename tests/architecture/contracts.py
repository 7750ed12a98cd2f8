"""Contracts of import-linter that read the rows of balancers: a new balancer is held to them without a word
added.

In `layers`, `{levels}` and `{systems}` stand for all of them side by side; in other lists, an item with one
of them stands for as many items.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from importlinter import Contract, ContractCheck, output
from importlinter.contracts.forbidden import ForbiddenContract
from importlinter.contracts.layers import LayersContract

from trimtab.balancers import BALANCERS, systems

if TYPE_CHECKING:
    from grimp import ImportGraph

DATA_PLANES = {"trimtab_keys": "keys", "trimtab_queues": "queues", "trimtab_store": "masters"}
"""Packages of the workspace, each of one balancer; the control plane uses their decisions and formats."""
LAB = "trimtab.lab."
"""Demo, sandbox and made-up worlds, with their commands, show particular levels."""
NAMES = {"levels": list(BALANCERS), "systems": [system.name for system in systems()]}


class LevelLayers(LayersContract):
    """Layers, in which balancers and systems stand side by side."""

    def __init__(self, name: str, session_options: dict[str, Any], contract_options: dict[str, Any]) -> None:
        side_by_side = {what: " | ".join(names) for what, names in NAMES.items()}
        layers = [layer.format(**side_by_side) for layer in contract_options["layers"]]
        super().__init__(name, session_options, {**contract_options, "layers": layers})


class LevelForbidden(ForbiddenContract):
    """Imports that are forbidden to every balancer, or of every balancer."""

    def __init__(self, name: str, session_options: dict[str, Any], contract_options: dict[str, Any]) -> None:
        spread = {
            key: list(_spread(contract_options[key])) for key in ("source_modules", "forbidden_modules")
        }
        super().__init__(name, session_options, {**contract_options, **spread})


def _spread(modules: list[str]) -> Iterator[str]:
    for module in modules:
        what = next((what for what in NAMES if f"{{{what}}}" in module), None)
        yield from [module] if what is None else [module.format(**{what: name}) for name in NAMES[what]]


class Strangers(Contract):
    """Levels are strangers to one another in every room, and shared code knows none of them.

    A module of a balancer is imported by that level alone, by its systems' modules, and by the lab. That
    holds for every room at once, also for one that is not there yet.
    """

    type_name = "strangers"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Every import of a module of a balancer by one that may not know it."""
        found = [
            (importer, imported)
            for imported in sorted(graph.modules)
            if _level(imported) is not None
            for importer in sorted(graph.find_modules_that_directly_import(imported))
            if not _may_know(importer, _level(imported))
        ]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """One line each."""
        for importer, imported in check.metadata["found"]:
            output.print_error(f"{importer} is not allowed to import {imported}")


def _level(module: str) -> str | None:
    """The balancer whose package, or folder of a room, a module stands in."""
    parts = module.split(".")
    if parts[0] in DATA_PLANES:
        return DATA_PLANES[parts[0]]
    return parts[2] if len(parts) > 2 and parts[2] in BALANCERS and parts[1] != "lab" else None


def _may_know(importer: str, level: str | None) -> bool:
    if level is None or importer.startswith(LAB):
        return True
    return _level(importer) == level or bool(
        {one.name for one in BALANCERS[level].systems} & set(importer.split(".")[2:])
    )
