"""Archives of loaded classes (class-data sharing): brokers start with a third less of CPU time.

Making them takes one start and one orderly end of a cluster of one broker, once for each Java and set of
jars.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from trimtab.jars.fetch import ProgressCallback, exclusive_lock, scratch_sibling
from trimtab.lab.sandbox.cluster import Sandbox
from trimtab.lab.sandbox.processes import end
from trimtab.lab.sandbox.pulsar.declare import declare
from trimtab.lab.sandbox.pulsar.runtime import PulsarRuntime
from trimtab.lab.sandbox.pulsar.state import PulsarNode, PulsarSandboxState

DONE = "archived"
# A process writes its archive when it ends, on a busy machine for half a minute.
END_TIMEOUT_SECONDS = 120.0


def record_archives(
    runtime: PulsarRuntime,
    bring_up: Callable[[PulsarSandboxState, PulsarRuntime], Sandbox[PulsarSandboxState, PulsarNode, str]],
    print_progress: ProgressCallback,
) -> None:
    """Make the archives of a runtime unless they are there.

    Parameters
    ----------
    runtime
        Whose folder in the cache gets them.
    bring_up
        Starts a declared cluster and waits until it serves.
    print_progress
        Takes lines of progress.
    """
    folder = runtime.folder
    if (folder / DONE).exists():
        return
    with exclusive_lock(folder.with_name(f"{folder.name}.lock")):
        if (folder / DONE).exists():
            return
        print_progress("preparing Pulsar for fast starts (once)")
        with scratch_sibling(folder) as scratch:
            recorded = scratch / "archives"
            recorded.mkdir()
            state = declare(
                1,
                scratch / "sandbox",
                first_port=None,
                has_bed=runtime.has_bed,
                version=runtime.version,
                load_manager="modular",
                secured=False,
            )
            sandbox = bring_up(state, replace(runtime, recorded=recorded))
            try:
                # Brokers first: what they stand on must outlive them, or they would not end in order.
                for node in reversed(sandbox.state.nodes):
                    end([sandbox.state.processes[node.id]], END_TIMEOUT_SECONDS)
            finally:
                sandbox.stop()
            for archive in recorded.glob("*.jsa"):
                archive.replace(folder / archive.name)
        (folder / DONE).touch()
