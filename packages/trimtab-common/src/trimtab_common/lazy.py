"""Public names of a package that are imported when a program first uses them.

Each package of the workspace has such names: `import trimtab_queues.core` must not load taskiq.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package.

    Parameters
    ----------
    package
        Its dotted name.
    modules
        Module below the package, by the name that the package exports from it.
    """

    def load(name: str) -> object:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return load
