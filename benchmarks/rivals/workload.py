"""What every program does with a message: occupy its worker for a while, and write down when."""

from __future__ import annotations

import os
import struct
import time
from functools import cache
from pathlib import Path
from threading import Lock

URL = os.environ.get("RIVAL_URL", "redis://127.0.0.1:1/0")
TUNED = os.environ.get("RIVAL_TUNED") == "1"
RECOVERY_SECONDS = 10
"""After which a tuned program takes back what a dead worker had; ours has it by default."""

RECORD = struct.Struct("<qdd")
"""Number of the message, beginning and end of its work, seconds of the machine's clock."""
_CORE = Lock()


def occupy(number: int, seconds: float) -> None:
    """Work on a message alone in this process, as what needs the processor does under Python's lock.

    It sleeps, since the workers together have more processors than this machine.
    """
    with _CORE:
        began = time.time()
        if seconds:
            time.sleep(seconds)
        os.write(_records(), RECORD.pack(number, began, time.time()))


@cache
def _records() -> int:
    path = Path(os.environ["RIVAL_RECORDS"]) / f"{os.getpid()}.records"
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
