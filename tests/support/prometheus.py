"""Programs of Debian's packages of Prometheus and Alertmanager, and servers of them for a test."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from trimtab.files.machine import cache_folder
from trimtab.jars import exclusive_lock, scratch_sibling
from trimtab.lab.sandbox.processes import free_ports

PACKAGES: Final = {
    "promtool": "prometheus",
    "prometheus": "prometheus",
    "prometheus-alertmanager": "prometheus-alertmanager",
}
"""Debian package of each program."""
PATIENCE_SECONDS: Final = 60.0


def program(name: str) -> str:
    """Path of a program: of this machine, else of Debian's package, which is fetched once without root.

    Where it cannot be had, the test is skipped with the reason; in CI it fails.
    """
    found = shutil.which(name)
    if found is not None:
        return found
    stored = cache_folder() / PACKAGES[name] / "debian"
    path = stored / "usr" / "bin" / name
    stored.parent.mkdir(parents=True, exist_ok=True)
    with exclusive_lock(stored.parent / "lock"):
        if not path.exists():
            problem = _fetch(PACKAGES[name], stored)
            if problem:
                text = f"{name} is not on PATH, and Debian's package of it cannot be fetched: {problem}"
                (pytest.fail if os.environ.get("CI") else pytest.skip)(text)
    return str(path)


def _fetch(package: str, folder: Path) -> str:
    """Unpack a package into a folder; why that fails, or nothing."""
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        return "there is no apt-get; install Prometheus and Alertmanager yourself"
    with scratch_sibling(folder) as scratch:
        (scratch / "made").mkdir()
        done = subprocess.run(
            ["apt-get", "download", package], cwd=scratch, capture_output=True, text=True, check=False
        )
        if done.returncode:
            return f"{done.stderr.strip()[-300:]}; run `apt-get update` first"
        (archive,) = scratch.glob("*.deb")
        subprocess.run(["dpkg", "-x", archive.name, "made"], cwd=scratch, check=True)
        (scratch / "made").rename(folder)
    return ""


def get_json(url: str, **parameters: str) -> Any:
    """The document that a server answers with."""
    query = f"?{urllib.parse.urlencode(parameters)}" if parameters else ""
    with urllib.request.urlopen(url + query, timeout=30) as answer:
        return json.load(answer)


@contextmanager
def _running(command: list[str], folder: Path, url: str) -> Iterator[str]:
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        ends = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                urllib.request.urlopen(f"{url}/-/ready", timeout=5).close()
                break
            except (urllib.error.URLError, OSError):
                if server.poll() is not None or time.monotonic() > ends:
                    pytest.fail(f"{command[0]} does not answer: {(folder / 'log').read_text()[-2000:]}")
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait(30)


@contextmanager
def prometheus(configuration: str, folder: Path) -> Iterator[str]:
    """A Prometheus with a configuration, until the end of the block; yields its address."""
    (port,) = free_ports(1)
    (folder / "prometheus.yml").write_text(configuration, encoding="utf-8")
    command = [
        program("prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data",
        f"--web.listen-address=127.0.0.1:{port}",
    ]  # fmt: skip
    with _running(command, folder, f"http://127.0.0.1:{port}") as url:
        yield url


_TEMPLATES: Final = Path("/usr/share/prometheus")
_WITH_TEMPLATES: Final = 'mount -t tmpfs none /usr/share && cp -r "$0" /usr/share/ && exec "$@"'


def _with_templates(command: list[str]) -> list[str]:
    """The command in a mount namespace, since the program reads templates from a fixed folder."""
    shared = Path(command[0]).parents[1] / "share" / "prometheus"
    if _TEMPLATES.exists() or not shared.exists():
        return command
    namespace = ["unshare", "--map-root-user", "--mount"]
    return [*namespace, "sh", "-c", _WITH_TEMPLATES, str(shared), *command]


@contextmanager
def alertmanager(folder: Path) -> Iterator[str]:
    """An Alertmanager that notifies nobody, until the end of the block; yields its address."""
    (port,) = free_ports(1)
    (folder / "alertmanager.yml").write_text("route: {receiver: none}\nreceivers: [{name: none}]\n")
    command = [
        program("prometheus-alertmanager"), "--config.file=alertmanager.yml", "--storage.path=data",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    ]  # fmt: skip
    with _running(_with_templates(command), folder, f"http://127.0.0.1:{port}") as url:
        yield url


def wait_for(found: Callable[[], Any], what: str, seconds: float = PATIENCE_SECONDS) -> Any:
    """The first value that is true, within a time."""
    ends = time.monotonic() + seconds
    while not (value := found()):
        if time.monotonic() > ends:
            pytest.fail(f"{what} not within {seconds:.0f} s")
        time.sleep(0.2)
    return value
