"""`python -m trimtab.dataplane.masters node.json`: one node, until it is killed."""

from __future__ import annotations

import sys
from pathlib import Path

from trimtab.dataplane.masters.process import run_node
from trimtab.model.errors import TrimtabError


def main() -> int:
    """Run a node; exit code 2 for a bad configuration or log, 1 when its disk or address fails."""
    try:
        run_node(Path(sys.argv[1]))
    except TrimtabError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
