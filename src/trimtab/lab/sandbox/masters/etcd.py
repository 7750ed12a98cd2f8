"""An etcd cluster beside the nodes of a sandbox: where its program comes from, how a member is started."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Final

from trimtab.files.machine import cache_folder
from trimtab.jars.fetch import ProgressCallback, exclusive_lock, ignore_progress, scratch_sibling
from trimtab.model.errors import SandboxError

MEMBERS: Final = 3
MEMORY_PER_MEMBER_MB: Final = 200
"""Measured: 27 MB at the start, 160 to 195 after 34,000 messages of 512 bytes."""
PACKAGE: Final = "etcd-server"
LOSING: Final = ((3, 5, 0), (3, 5, 1), (3, 5, 2))
"""Versions in which members that are killed under load may lack what was committed (etcd-io/etcd#13766)."""
OLDEST: Final = (3, 4, 0)
DOWNLOAD_SECONDS: Final = 120


def etcd_program(print_progress: ProgressCallback = ignore_progress) -> str:
    """The path of an etcd that may be killed: that on PATH, else Debian's, kept in the cache without root.

    Raises
    ------
    SandboxError
        If there is none, or the one on PATH may lose what was committed.
    """
    found = shutil.which("etcd")
    if found is not None:
        require_healthy(found)
        return found
    kept = cache_folder() / "etcd" / "debian"
    program = kept / "usr" / "bin" / "etcd"
    if not program.exists():
        with exclusive_lock(kept.parent / "lock"):
            if not program.exists():
                print_progress(f"fetching Debian's package {PACKAGE}, once")
                _unpack(kept)
    require_healthy(str(program))
    return str(program)


def _unpack(retained: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise SandboxError(
            "no etcd is installed, and there is no apt-get that could fetch one: install etcd 3.4.22 or "
            "later, or 3.5.6 or later, so that `etcd` is on PATH"
        )
    with scratch_sibling(retained) as scratch:
        made = scratch / "made"
        made.mkdir()
        _run(["apt-get", "download", PACKAGE], scratch)
        (package,) = scratch.glob("*.deb")
        _run(["dpkg", "-x", package.name, "made"], scratch)
        made.rename(retained)


def _run(command: Sequence[str], folder: Path) -> None:
    try:
        done = subprocess.run(
            command, cwd=folder, capture_output=True, text=True, timeout=DOWNLOAD_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise SandboxError(
            f"`{' '.join(command)}` was not done in {DOWNLOAD_SECONDS} s: install etcd yourself"
        ) from error
    if done.returncode != 0:
        raise SandboxError(
            f"`{' '.join(command)}` failed ({done.stderr.strip()[-300:]}): have `apt-get update` run "
            "first, or install etcd 3.4.22 or later, so that `etcd` is on PATH"
        )


def require_healthy(program: str) -> None:
    """Refuse versions that lose what they have committed when they are killed: here members are.

    Raises
    ------
    SandboxError
        If it is one of them, or older than what is spoken here, or tells no version.
    """
    try:
        said = subprocess.run([program, "--version"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        raise SandboxError(f"{program} cannot be run ({error}): install etcd anew") from error
    found = re.search(r"etcd Version: (\d+)\.(\d+)\.(\d+)", said)
    if found is None:
        raise SandboxError(f"{program} tells no version of etcd ({said[:80]!r}): install etcd anew")
    version = tuple(map(int, found.groups()))
    if version in LOSING:
        raise SandboxError(
            f"{program} is etcd {'.'.join(found.groups())}, expected none of 3.5.0 to 3.5.2: "
            "those lose committed writes when they are killed under load (etcd-io/etcd#13766), and "
            "here they are; install 3.4.22 or later, or 3.5.6 or later"
        )
    if version < OLDEST:
        raise SandboxError(
            f"{program} is etcd {'.'.join(found.groups())}, expected 3.4 or later: install a later one"
        )


def member_command(
    program: str, member: int, ports: Sequence[int], folder: Path, election_seconds: float
) -> list[str]:
    """The command line of a member on 127.0.0.1.

    Parameters
    ----------
    ports
        Two a member: for clients, and for the others.
    """
    clients, peers = ports[::2], ports[1::2]
    cluster = ",".join(f"m{number}=http://127.0.0.1:{port}" for number, port in enumerate(peers))
    client, peer = f"http://127.0.0.1:{clients[member]}", f"http://127.0.0.1:{peers[member]}"
    election = round(1000 * election_seconds)
    # Changes of keys are kept for five minutes, for watches that begin again.
    return [
        program, "--name", f"m{member}", "--data-dir", str(folder / "data"),
        "--listen-client-urls", client, "--advertise-client-urls", client,
        "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
        "--initial-cluster", cluster, "--initial-cluster-state", "new",
        "--election-timeout", str(election), "--heartbeat-interval", str(election // 5),
        "--auto-compaction-mode", "periodic", "--auto-compaction-retention", "5m",
    ]  # fmt: skip


def healthy(port: int) -> bool:
    """Whether a member answers, with a leader."""
    connection = HTTPConnection("127.0.0.1", port, timeout=1.0)
    try:
        connection.request("GET", "/health")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def wait_until_healthy(ports: Sequence[int], seconds: float, poll: Callable[[], None]) -> None:
    """Wait until all members answer.

    Parameters
    ----------
    poll
        Called between; raises if one has ended.

    Raises
    ------
    SandboxError
        If they do not in time.
    """
    until = time.monotonic() + seconds
    while missing := [port for port in ports if not healthy(port)]:
        poll()
        if time.monotonic() > until:
            raise SandboxError(
                f"members of etcd on ports {missing} are not healthy after {seconds:g} s: close what else "
                "keeps the processors busy"
            )
        time.sleep(0.1)
