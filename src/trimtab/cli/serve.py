"""`trimtab serve`: the service until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from trimtab.cli.status import stop_on_signals
from trimtab.extras import require
from trimtab.files.machine import state_folder
from trimtab.files.store import Location, reach
from trimtab.report.formats import print_progress
from trimtab_common.settings import Overrides


def serve(settings: Path | None, overrides: Overrides, lake: Location) -> None:
    """Body of `trimtab serve`: observe, decide, act, and answer requests."""
    for package in ("starlette", "uvicorn"):
        require(package)
    from trimtab.serve.service import Service

    reach(lake)
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # Clients of clusters log each refused connection; what it means is logged here.
    logging.getLogger("trimtab").setLevel(logging.INFO)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    stop = stop_on_signals()
    service = Service(settings, overrides, lake, state_folder())
    service.start()
    print_progress(f"{service.instance} serves {service.url}; end with Ctrl-C")
    stop.wait()
    service.stop()
    # Threads that wait for a cluster must not delay the end: what they do is in the journal.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)
