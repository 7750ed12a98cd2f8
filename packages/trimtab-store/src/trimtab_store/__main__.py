"""`trimtab-store node --config FILE` runs one node, as `trimtab masters node` of the control plane does."""

import argparse
import sys
from pathlib import Path

from trimtab_common.errors import TrimtabError


def main() -> int:
    """Run the command line; the exit code."""
    parser = argparse.ArgumentParser(prog="trimtab-store", description="A store of replicated groups.")
    commands = parser.add_subparsers(dest="command", required=True)
    node = commands.add_parser(
        "node", help="Run one node until it is stopped. Acknowledged messages survive any crash."
    )
    node.add_argument(
        "--config",
        type=Path,
        required=True,
        metavar="FILE",
        help="Configuration of the node (trimtab/masters-node/1).",
    )
    file: Path = parser.parse_args().config

    from trimtab_store.node.process import run_node

    try:
        run_node(file)
    except TrimtabError as error:
        print(f"trimtab-store: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
