"""Runs command lines of trimtab, each in a process of its own that is forked from one Python.

Reads a JSON list of lists of words from standard input; writes a JSON list of `[exit code, output]`.
"""

import json
import os
import signal
import sys
import tempfile
import traceback
from typing import IO

# Imported once, not by each child: packages of the base.
import kafka  # noqa: F401
import numba  # noqa: F401
import pyarrow.parquet  # noqa: F401
import rich.table  # noqa: F401

from trimtab.cli.app import main

LONGEST_SECONDS = 120


def _child(words: list[str], told: IO[bytes]) -> int:
    signal.alarm(LONGEST_SECONDS)
    for stream in (1, 2):
        os.dup2(told.fileno(), stream)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    code: object = 0
    try:
        main(words)
    except SystemExit as ended:
        code = ended.code
    except BaseException:
        traceback.print_exc()
        code = 70
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


def _ran(words: list[str]) -> tuple[int, str]:
    with tempfile.TemporaryFile() as told:
        if (child := os.fork()) == 0:
            os._exit(_child(words, told))
        _, status = os.waitpid(child, 0)
        told.seek(0)
        return os.waitstatus_to_exitcode(status), told.read().decode()


if __name__ == "__main__":
    json.dump([_ran(words) for words in json.loads(sys.stdin.read())], sys.stdout)
