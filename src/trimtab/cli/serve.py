"""`trimtab serve`: the service until SIGTERM or Ctrl-C."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from trimtab.cli.status import stop_on_signals
from trimtab.extras import require
from trimtab.files.machine import state_folder
from trimtab.files.store import Location, reach
from trimtab.report.formats import print_progress
from trimtab_common.settings import Overrides

if TYPE_CHECKING:
    from starlette.applications import Starlette

    from trimtab.serve.service import Service


def serve(settings: Path | None, overrides: Overrides, lake: Location) -> None:
    """Body of `trimtab serve`: observe, decide, act, and answer requests."""
    require("serve")
    from trimtab.files.machine import Runtime, start_thread, use_one_heap
    from trimtab.serve.children import call_apart, warm_up_planners
    from trimtab.serve.http.security import require_safe_listen
    from trimtab.serve.http.server import HttpServer
    from trimtab.serve.service import Service
    from trimtab.serve.systemd import notify, watchdog_seconds

    use_one_heap()
    reach(lake)
    logging.basicConfig(
        level=logging.WARNING, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s: %(message)s"
    )
    # Clients of clusters log each refused connection; what it means is logged here.
    logging.getLogger("trimtab").setLevel(logging.INFO)
    logging.getLogger("kafka").setLevel(logging.CRITICAL)
    stop = stop_on_signals()
    service = Service(settings, overrides, lake, state_folder(), Runtime(call=call_apart))
    require_safe_listen(service.settings)
    server = HttpServer(_application(service), service.settings)
    service.url = service.settings.public_url or server.url
    service.start()
    server.start()
    start_thread("planner", lambda: warm_up_planners({one.balancer for one in service.targets()}))
    notify("READY=1")
    print_progress(f"{service.instance} serves {server.url}; end with Ctrl-C")
    seconds = watchdog_seconds()
    while not stop.wait(seconds):
        if not service.liveness():
            notify("WATCHDOG=1")
    notify("STOPPING=1")
    server.stop(2.0)
    service.stop()
    # Threads that wait for a cluster must not delay the end: what they do is in the journal.
    logging.shutdown()
    sys.stdout.flush()
    os._exit(0)


def _application(service: Service) -> Starlette:
    from trimtab.serve.cruise_control import cruise_control_routes
    from trimtab.serve.http.app import create_app
    from trimtab.serve.metrics import metrics_route
    from trimtab.serve.pages import error_page, page_routes

    routes = [*page_routes(service), metrics_route(service)]
    if service.settings.cruise_control:
        routes += cruise_control_routes(service)
    session_file = state_folder() / "serve" / "sessions.json"
    return create_app(service, routes, error_page(service), session_file=session_file)
