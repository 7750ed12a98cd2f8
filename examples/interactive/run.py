"""The interactive message system: start it, drive bursts through it, kill its parts.

`python examples/interactive/run.py` starts everything, server included, and says where the page is.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))

from interactive.chaos import chaos
from interactive.checking import check, wait_until_counted
from interactive.load import burst
from interactive.system import System
from trimtab_common.errors import TrimtabError


def up(system: System, arguments: argparse.Namespace) -> None:
    """Keep the system up until Ctrl-C."""
    print(
        f"page:    {system.url}\nrules:   {arguments.rules}\nlogs:    {system.folder}\nCtrl-C ends it",
        flush=True,
    )
    while True:
        system.tend()
        time.sleep(0.2)


def drive(system: System, arguments: argparse.Namespace) -> None:
    """One burst, and how long it took."""
    began = time.monotonic()
    book = asyncio.run(
        burst(
            system.url, arguments.votes, batch=arguments.batch, centres=arguments.centres,
            votes_per_second=arguments.votes / arguments.seconds if arguments.seconds else 1e9,
        )
    )  # fmt: skip
    accepted = time.monotonic() - began
    wait_until_counted(system.server.url, book)
    counted = time.monotonic() - began
    latencies = sorted(book.seconds)
    print(
        json.dumps(
            {
                **check(system.server.url, book),
                "accepted_after_seconds": round(accepted, 1),
                "counted_after_seconds": round(counted, 1),
                "requests": len(latencies),
                "answer_p50_ms": round(1000 * latencies[len(latencies) // 2], 1),
                "answer_p99_ms": round(1000 * latencies[int(0.99 * (len(latencies) - 1))], 1),
                "sent_again": dict(book.again),
                "cpu_seconds": {**system.cpu_seconds(), "voters": round(time.process_time(), 1)},
            }
        )
    )


def shake(system: System, arguments: argparse.Namespace) -> None:
    """Kills in mid-burst, and what is left."""
    found = asyncio.run(
        chaos(
            system,
            arguments.kills,
            votes_per_second=arguments.rate,
            pause_seconds=(0.1, 0.6),
            seed=arguments.seed,
            tell=lambda line: print(line, file=sys.stderr, flush=True),
        )
    )  # fmt: skip
    print(json.dumps(found))


def main() -> None:
    """One command of three."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rules", type=Path, default=FOLDER / "rules.toml", help="the rule file")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--port", type=int, help="of the page; a free one if not told")
    parser.set_defaults(does=up)
    commands = parser.add_subparsers()
    one = commands.add_parser("burst", help="a burst of votes, measured")
    one.set_defaults(does=drive)
    one.add_argument("--votes", type=int, default=100_000)
    one.add_argument("--seconds", type=float, default=60.0, help="spread over; 0 for as fast as it goes")
    one.add_argument("--batch", type=int, default=500, help="votes a request; 1 for the single endpoint")
    one.add_argument("--centres", type=int, default=8, help="senders at once")
    one = commands.add_parser("chaos", help="kill -9 of every part in mid-burst")
    one.set_defaults(does=shake)
    one.add_argument("--kills", type=int, default=200)
    one.add_argument("--rate", type=float, default=100.0, help="votes a second")
    one.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="interactive-"))
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C
    system = None
    try:
        system = System(folder, arguments.rules.resolve(), arguments.workers, arguments.port)
        arguments.does(system, arguments)
    except TrimtabError as error:
        sys.exit(f"interactive: {error}")
    except KeyboardInterrupt:
        print("ended")
    finally:
        if system is not None:
            system.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
