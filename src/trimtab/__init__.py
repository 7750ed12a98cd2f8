"""trimtab: small moves that keep message clusters level.

The names of `__all__` are the public Python face; docs/python.md shows them and says what is stable. They are
imported when asked for, so that `import trimtab` costs next to nothing; `__init__.pyi` gives their types.
"""

__version__ = "0.1.0"

__all__ = [
    "BALANCERS",
    "Balancer",
    "Done",
    "ExecutionControl",
    "ExecutionEvent",
    "ExecutionOutcome",
    "Interrupted",
    "Measurement",
    "Plan",
    "PreparedExecution",
    "Refused",
    "Snapshot",
    "Stopped",
    "TrimtabError",
    "__version__",
    "apply",
    "make_plan",
    "measure",
    "measures",
    "moves",
    "plan_text",
    "predicted",
    "read_plan",
    "read_snapshot",
    "replay",
    "resume",
    "tables",
    "usage",
    "write_plan",
    "write_snapshot",
]


def __getattr__(name: str) -> object:
    """A public name, imported now that somebody asks for it."""
    if name not in __all__:
        raise AttributeError(f"module 'trimtab' has no attribute {name!r}")
    from importlib import import_module

    module = "trimtab.executions.measuring" if name == "Measurement" else "trimtab.api"
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
