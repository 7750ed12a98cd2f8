"""Kills by number: `python -m trimtab.lab.sandbox.masters --kills 200 --seed 1`."""

from __future__ import annotations

import argparse
import sys

from trimtab.lab.sandbox.masters.kill_test import GROUPS, LEASE_SECONDS, NODES, StoreKillTest
from trimtab.lab.sandbox.masters.ledger import StoreViolation
from trimtab.lab.sandbox.masters.sandbox import MastersSandbox
from trimtab.online.masters.engines import EMBEDDED, ENGINES


def main() -> int:
    """Start nodes, run, and say what came of it."""
    parser = argparse.ArgumentParser(prog="python -m trimtab.lab.sandbox.masters", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="how many processes are killed")
    parser.add_argument("--seed", type=int, default=1, help="of moments, victims and maps")
    parser.add_argument("--engine", choices=sorted(ENGINES), default=EMBEDDED.name, help="what chooses")
    parser.add_argument(
        "--cuts", action="store_true", help="also cut the network between processes, by a proxy"
    )
    parser.add_argument(
        "--map-in-store", action="store_true", help="publish maps in the store, not in a file"
    )
    given = parser.parse_args()
    with MastersSandbox.start(
        NODES,
        GROUPS,
        lease_seconds=LEASE_SECONDS,
        engine=given.engine,
        proxied=given.cuts,
        map_in_store=given.map_in_store,
    ) as sandbox:
        try:
            told = StoreKillTest(sandbox, given.seed).run(given.kills)
        except StoreViolation as error:
            print(f"seed {given.seed}: {error}")
            return 1
    print(f"seed {given.seed}: {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
