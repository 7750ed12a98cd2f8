"""A control group for each node, so that CPU is counted and limited for each node separately.

Both forms of Linux's control groups are known: version 1 with a tree for each controller, and the one tree
of version 2. Making groups needs root, or a tree that was handed to the user.
"""

from __future__ import annotations

import contextlib
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from trimtab.model.errors import SandboxError

MOUNTS, MEMBERSHIP = Path("/proc/self/mounts"), Path("/proc/self/cgroup")
PERIOD_MICROSECONDS = 100_000
MEMBERS = "cgroup.procs"


@dataclass(frozen=True)
class NodeCgroup:
    """The control group of one node.

    Parameters
    ----------
    folders
        Its folders: one for each controller in version 1, a single one in version 2.
    """

    folders: tuple[Path, ...]

    def entering(self, command: list[str]) -> list[str]:
        """A command line that enters the group and then executes the given one."""
        enter = "; ".join(f'echo $$ > "{folder / MEMBERS}"' for folder in self.folders)
        return ["/bin/sh", "-c", f'set -e; {enter}; exec "$@"', "sh", *command]


def make_control_group(
    name: str, cpus: float, mounts: Path = MOUNTS, membership: Path = MEMBERSHIP
) -> NodeCgroup:
    """Make an empty group with a CPU limit for its members together.

    Raises
    ------
    SandboxError
        If this system has no such groups or does not let us make one.
    """
    trees = cpu_trees(mounts.read_text() if mounts.exists() else "")
    places = own_places(membership.read_text() if membership.exists() else "")
    made: list[Path] = []
    try:
        if {"cpu", "cpuacct"} <= trees.keys():
            for controller in sorted({trees["cpu"], trees["cpuacct"]}):
                made.append(_below(controller, places.get("cpu", "/")) / name)
                made[-1].mkdir()
            quota = _below(trees["cpu"], places.get("cpu", "/")) / name
            (quota / "cpu.cfs_period_us").write_text(f"{PERIOD_MICROSECONDS}\n")
            (quota / "cpu.cfs_quota_us").write_text(f"{int(cpus * PERIOD_MICROSECONDS)}\n")
        elif "" in trees:
            above = _below(trees[""], places.get("", "/"))
            if "cpu" not in (above / "cgroup.subtree_control").read_text().split():
                (above / "cgroup.subtree_control").write_text("+cpu\n")
            made.append(above / name)
            made[-1].mkdir()
            (made[-1] / "cpu.max").write_text(f"{int(cpus * PERIOD_MICROSECONDS)} {PERIOD_MICROSECONDS}\n")
        else:
            raise SandboxError("there are no control groups for CPU on this system: it has to be Linux")
        group = NodeCgroup(tuple(made))
        _require_entry(group)
    except OSError as error:
        remove(made)
        raise SandboxError(
            f"this system does not let us make a control group for CPU ({error.strerror}: "
            f"{error.filename}): run as root, or in a scope that was delegated"
        ) from error
    except BaseException:
        remove(made)
        raise
    return group


def remove(folders: Iterable[Path]) -> None:
    """Remove groups without members; groups in use or already removed are skipped."""
    for folder in folders:
        # The kernel lets go of a killed member a moment after its parent has reaped it.
        for _ in range(100):
            try:
                folder.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                time.sleep(0.02)
            else:
                break


def cpu_trees(mounts: str) -> dict[str, Path]:
    """Mount points of the trees, from the text of /proc/mounts: by controller, version 2 under no name.

    A version 2 tree beside version 1 trees carries no CPU controller; version 1 is listed then as well.
    """
    trees: dict[str, Path] = {}
    for line in mounts.splitlines():
        _, place, kind, options, *_ = [*line.split(" "), "", "", "", ""]
        if kind == "cgroup2":
            trees[""] = Path(place)
        elif kind == "cgroup":
            trees |= {name: Path(place) for name in options.split(",") if name in ("cpu", "cpuacct")}
    return trees


def own_places(membership: str) -> Mapping[str, str]:
    """The group that this process is in, from the text of /proc/self/cgroup: by controller."""
    places: dict[str, str] = {}
    for line in membership.splitlines():
        _, controllers, place = line.split(":", 2)
        places |= {name: place for name in controllers.split(",")}
    return places


def _below(tree: Path, place: str) -> Path:
    """The folder of our own group; in a container that may be the root of the visible tree."""
    own = tree / place.lstrip("/")
    return own if own.is_dir() else tree


def _require_entry(group: NodeCgroup) -> None:
    """Check that a process may enter the group; some systems allow making a group only."""
    answer = subprocess.run(
        group.entering(["/bin/true"]), capture_output=True, text=True, timeout=10, check=False
    )
    if answer.returncode != 0:
        with contextlib.suppress(OSError):
            remove(group.folders)
        raise SandboxError(
            f"this system does not let us put a process into a control group ({answer.stderr.strip()}): "
            "run as root, or in a scope that was delegated"
        )
