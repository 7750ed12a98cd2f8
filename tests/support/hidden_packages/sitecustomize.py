"""Hides packages from every Python that has this folder on PYTHONPATH, as if they were not installed.

Python imports this module at its start. The variable `HIDDEN_PACKAGES` lists names of modules, and
`HIDDEN_DISTRIBUTIONS` names of distributions, both separated by commas.
"""

import os
import re
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

_MODULES = frozenset(os.environ["HIDDEN_PACKAGES"].split(","))
_DISTRIBUTIONS = frozenset(os.environ["HIDDEN_DISTRIBUTIONS"].split(","))


class _Finder(PathFinder):
    """Python's own finder, without what is hidden."""

    @classmethod
    def find_spec(cls, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if fullname.partition(".")[0] in _MODULES:
            return None
        return super().find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, *args: Any, **kwargs: Any) -> Any:
        for found in PathFinder.find_distributions(*args, **kwargs):
            if re.sub(r"[-_.]+", "-", found.metadata["Name"]).lower() not in _DISTRIBUTIONS:
                yield found


sys.meta_path[sys.meta_path.index(PathFinder)] = _Finder
