"""The root command: groups are registered by name and imported only when one is called."""

from __future__ import annotations


def main() -> None:
    """Run the trimtab command line."""
    raise SystemExit("trimtab: no command group is installed yet")
