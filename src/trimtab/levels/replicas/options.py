"""Options of commands that only the level `replicas` has."""

from __future__ import annotations

from typing import Final

from trimtab.levels.level import Option


def _brokers(name: str, help: str) -> Option:
    return Option(f"--{name}", f"{help} (replicas.{name}).", list[str], [], setting=f"replicas.{name}")


PLAN: Final = (
    _brokers("drain", "Brokers to empty, as 5 or 5,7"),
    _brokers("demote", "Brokers that lead nothing in the end, and keep their replicas"),
    _brokers("add", "New brokers to fill: what need not move is copied to them alone"),
    Option(
        "--fix-offline",
        "Move only what must: off dead, drained and demoted brokers, failed dirs, crowded racks and hosts.",
        bool,
        False,
        setting="replicas.fix_offline",
    ),
    Option(
        "--to-disks",
        "Move replicas between the log dirs of their broker alone; nothing leaves its broker.",
        bool,
        False,
        setting="replicas.to_disks",
    ),
)
