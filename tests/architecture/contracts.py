"""Contracts of import-linter that read the table of balancers, so that they include a new balancer.

In `layers`, `{balancers}` and `{systems}` stand for all of them side by side. In other lists, an item with
one of them stands for as many items.
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
"""Sandboxes and simulated systems, with their commands, may import any balancer."""
NAMES = {"balancers": list(BALANCERS), "systems": [system.name for system in systems()]}


class BalancerLayers(LayersContract):
    """Layers in which all balancers, or all systems, have the same rank."""

    def __init__(self, name: str, session_options: dict[str, Any], contract_options: dict[str, Any]) -> None:
        side_by_side = {what: " | ".join(names) for what, names in NAMES.items()}
        layers = [layer.format(**side_by_side) for layer in contract_options["layers"]]
        super().__init__(name, session_options, {**contract_options, "layers": layers})


class BalancerForbidden(ForbiddenContract):
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


class IndependentBalancers(Contract):
    """No balancer imports another, and shared code imports none.

    Only the same balancer, modules of its systems, and the lab import a module of a balancer. The contract
    reads all packages, so it includes new ones.
    """

    type_name = "independent_balancers"

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Find imports of a balancer's module by modules that may not import it."""
        found = [
            (importer, imported)
            for imported in sorted(graph.modules)
            if _balancer(imported) is not None
            for importer in sorted(graph.find_modules_that_directly_import(imported))
            if not _may_import(importer, _balancer(imported))
        ]
        return ContractCheck(kept=not found, metadata={"found": found})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Print one line for each."""
        for importer, imported in check.metadata["found"]:
            output.print_error(f"{importer} is not allowed to import {imported}")


def _balancer(module: str) -> str | None:
    """The balancer whose package or folder contains a module."""
    parts = module.split(".")
    if parts[0] in DATA_PLANES:
        return DATA_PLANES[parts[0]]
    return parts[2] if len(parts) > 2 and parts[2] in BALANCERS and parts[1] != "lab" else None


def _may_import(importer: str, balancer: str | None) -> bool:
    if balancer is None or importer.startswith(LAB):
        return True
    return _balancer(importer) == balancer or bool(
        {one.name for one in BALANCERS[balancer].systems} & set(importer.split(".")[2:])
    )
