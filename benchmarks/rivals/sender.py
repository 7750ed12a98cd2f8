"""Sends bursts to one of the programs at their times: `python -m rivals.sender MODULE BURSTS SENT`."""

from __future__ import annotations

import json
import sys
import time
from importlib import import_module
from pathlib import Path


def main() -> None:
    """Write when each burst was due and when its messages were accepted."""
    program = import_module(f"rivals.{sys.argv[1]}")
    bursts = json.loads(Path(sys.argv[2]).read_text())
    program.send([])  # connections and whatever else the first message would pay for
    begin, told = time.time(), []
    for at, messages in bursts:
        time.sleep(max(0.0, begin + at - time.time()))
        due = begin + at
        told.append((due, program.send(messages)))
    Path(sys.argv[3]).write_text(json.dumps(told))


if __name__ == "__main__":
    main()
