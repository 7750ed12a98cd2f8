"""What trimtab and its data planes share: errors, settings, document checks, optional packages.

Nothing here is about one system or one balancer. msgspec is the only package that it needs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Final

# Not in `settings`: `trimtab --help` needs the schemes, and must not load the reader of settings.
REDIS_SCHEMES: Final = ("redis://", "rediss://", "redis+cluster://")
"""How the address of a Redis or Valkey server begins."""


def lazy_names(package: str, modules: Mapping[str, str]) -> Callable[[str], object]:
    """The `__getattr__` of a package whose public names are imported when a program first uses them.

    `import trimtab_queues.core` must not load taskiq, which the public class of that package needs.

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
