"""Kills by number: `python -m trimtab.lab.sandbox.keys --kills 50`."""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from trimtab.lab.sandbox.kafka import KafkaSandbox
from trimtab.lab.sandbox.keys.checking import KeysViolation
from trimtab.lab.sandbox.keys.clients import CLIENTS
from trimtab.lab.sandbox.keys.kill_test import KeysKillTest


def main() -> int:
    """Start a broker, run, and say what came of it."""
    parser = argparse.ArgumentParser(prog="python -m trimtab.lab.sandbox.keys", description=__doc__)
    parser.add_argument("--kills", type=int, default=50, help="how many processes are killed")
    parser.add_argument("--seed", type=int, default=1, help="of moments, victims and tables")
    parser.add_argument("--client", choices=CLIENTS, help="of all processes; without it, each has another")
    given = parser.parse_args()
    clients = (given.client,) * 3 if given.client else CLIENTS
    with KafkaSandbox.start(1, prometheus=False) as sandbox, tempfile.TemporaryDirectory() as folder:
        kills = KeysKillTest(sandbox.connection.bootstrap[0], Path(folder), given.seed, clients[:2], clients)
        try:
            told = kills.run(given.kills)
        except KeysViolation as error:
            print(f"seed {given.seed}: {error}")
            return 1
    print(
        f"seed {given.seed}: {told.killed['produce']} producers, {told.killed['consume']} consumers killed, "
        f"{told.paused['produce']} and {told.paused['consume']} paused, "
        f"{told.tables} tables, {told.acknowledged:,} records acknowledged, {told.effects:,} effects, "
        f"settled {told.settled_seconds:.1f} s after the last kill: 0 violations"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
