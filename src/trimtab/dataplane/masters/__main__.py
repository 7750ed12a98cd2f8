"""`python -m trimtab.dataplane.masters node.json`: one node, until it is killed."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from trimtab.dataplane.masters.configuration import read_configuration
from trimtab.dataplane.masters.process import NodeProcess
from trimtab.model.errors import TrimtabError


async def _run(path: Path) -> None:
    await NodeProcess(read_configuration(path)).run()


def main() -> int:
    """Run a node; exit code 2 for a bad configuration or log, 1 when its disk or address fails."""
    try:
        asyncio.run(_run(Path(sys.argv[1])))
    except TrimtabError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except (OSError, ExceptionGroup) as error:
        print(f"error: the node ends: {getattr(error, 'exceptions', [error])[0]}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
