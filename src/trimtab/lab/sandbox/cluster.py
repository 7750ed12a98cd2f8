"""A running sandbox of any system: required resources, processes, logs, certificate, and its removal."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import time
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Generic, Protocol, Self, TypeVar

from trimtab.jars import Java
from trimtab.lab.sandbox.processes import SandboxProcess, kill, running, spawn, wait_for_starts
from trimtab.lab.sandbox.state import State, sandboxes_folder, stop_abandoned, stop_sandbox
from trimtab.model.errors import SandboxError

# What a sandbox's clients do needs room, too.
OTHER_MEMORY_MB = 300
DISK_MB = 2_000


def require_resources(what: str, memory_mb: int, folder: Path) -> None:
    """Make sure that memory and disk suffice.

    Parameters
    ----------
    what
        Is to be started, as the error names it.
    memory_mb
        What its nodes need together.
    folder
        Where its data will lie.

    Raises
    ------
    SandboxError
        If either does not.
    """
    needed = memory_mb + OTHER_MEMORY_MB
    free = free_memory_mb()
    if free is not None and free < needed:
        raise SandboxError(
            f"{what} need {needed} MB of memory, and {free} MB are free: close something, or start fewer "
            "brokers"
        )
    folder.parent.mkdir(parents=True, exist_ok=True)
    disk = shutil.disk_usage(folder.parent).free // 1_000_000
    if disk < DISK_MB:
        raise SandboxError(
            f"a sandbox needs {DISK_MB} MB of disk, and {folder.parent} has {disk} MB: free some, or name "
            "another place with the environment variable TRIMTAB_STATE"
        )


def free_memory_mb(meminfo: Path = Path("/proc/meminfo")) -> int | None:
    """The available memory; None if the system does not report it."""
    try:
        match = re.search(r"^MemAvailable:\s+(\d+) kB", meminfo.read_text(), re.MULTILINE)
    except OSError:
        return None
    return int(match.group(1)) // 1000 if match else None


LOGGING = """\
rootLogger.level = WARN
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{ISO8601} %p %m (%c{1})%n%throwable{short.message}%n
"""


def exit_reason(node: str, log: Path) -> str:
    """Why a node ended by itself, in one sentence from its log."""
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    if any("Address already in use" in line or "BindException" in line for line in lines):
        ports = re.findall(r"127\.0\.0\.1:(\d+)", "\n".join(lines))
        which = f"port {ports[-1]}" if ports else "one of its ports"
        return f"{node} cannot listen: {which} was taken while it started; try again"
    if any("insufficient memory" in line.lower() for line in lines):
        return f"{node} cannot start: this machine has no memory left; close something and try again"
    worst = [line for line in lines if re.search(r"\b(ERROR|FATAL|Error|Exception)\b", line)]
    last = (worst or lines or ["it wrote nothing"])[-1].strip()
    return f"{node} ended while it started: {last} (whole log: {log})"


KEYSTORE, CERTIFICATE = "keystore.p12", "ca.pem"


def make_certificate(java: Java, folder: Path, password: str) -> None:
    """Write a key store for the brokers and, for clients, the certificate it holds.

    Raises
    ------
    SandboxError
        If Java's keytool is missing or refuses.
    """
    store = ["-keystore", str(folder / KEYSTORE), "-storetype", "PKCS12", "-storepass", password]
    key = ["-keyalg", "EC", "-groupname", "secp256r1", "-validity", "30"]
    name = ["-dname", "CN=trimtab sandbox", "-ext", "san=ip:127.0.0.1,dns:localhost"]
    _keytool(java, ["-genkeypair", "-alias", "broker", *key, *name, *store])
    _keytool(java, ["-exportcert", "-rfc", "-alias", "broker", "-file", str(folder / CERTIFICATE), *store])


def _keytool(java: Java, arguments: list[str]) -> None:
    try:
        subprocess.run([java.keytool, *arguments], check=True, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise SandboxError(f"{java.keytool} is missing: install the whole of Java {java.version}") from error
    except subprocess.CalledProcessError as error:
        raise SandboxError(
            f"keytool cannot make a certificate: {error.stdout.strip() or error.stderr}"
        ) from error


class SandboxNode(Protocol):
    """One declared process of a cluster."""

    @property
    def id(self) -> int:
        """Its number within the sandbox, which its folder is named after."""
        ...

    @property
    def role(self) -> str:
        """Its role, such as `broker`."""
        ...


NodeT = TypeVar("NodeT", bound=SandboxNode)
Key = TypeVar("Key", int, str)


class Sandbox(Generic[State, NodeT, Key]):
    """A running sandbox cluster; leaving its `with` block stops it and deletes its data.

    Each system has a class method `start`. Besides options of its own it takes `folder`, where the sandbox
    lives (by default a new folder that no other sandbox uses), `detached`, whether it outlives this process,
    and `print_progress`, which takes lines of progress. If something is lacking or a process ends before it
    is ready, `start` leaves nothing running.

    Attributes
    ----------
    state
        Nodes, ports and processes, as `sandbox.json` in the sandbox's folder has them.
    """

    noun: ClassVar[str]
    ready_seconds: ClassVar[float]
    remedy: ClassVar[str] = ", or start fewer brokers"
    """Besides closing other programs, where the sandbox is not ready in time."""

    def __init__(self, state: State) -> None:
        self.state = state
        self._dismissed: set[int] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    @abstractmethod
    def _declared(self) -> dict[Key, NodeT]:
        """The nodes that can be killed and started again, by the system's own name for them."""

    @abstractmethod
    def _command(self, node: NodeT) -> list[str]:
        """The command line of a node."""

    @abstractmethod
    def _title(self, node: NodeT) -> str:
        """The name of a node in errors."""

    @abstractmethod
    def wait_until_serving(self, timeout_seconds: float | None = None) -> None:
        """Wait until every broker that was started, and not killed since, serves.

        Raises
        ------
        SandboxError
            If one ends instead, or time is up.
        """

    def cpu_seconds(self) -> dict[Key, float]:
        """Processor time of each running broker since its start."""
        used = {
            key: self.state.processes[node.id].cpu_seconds()
            for key, node in self._declared.items()
            if node.role == "broker" and node.id in self.state.processes
        }
        return {key: seconds for key, seconds in used.items() if seconds is not None}

    def kill(self, key: Key) -> None:
        """Kill a node with -9; the others notice when its session ends, some seconds later."""
        kill([self._dismiss(key)])

    def restart(self, key: Key) -> None:
        """Start a declared node that does not run, on its old folder and ports; does not wait for it."""
        node = self._node(key)
        if node.id in self.state.alive:
            raise SandboxError(f"{self.noun} {key} runs already: kill it first")
        self._dismissed.discard(node.id)
        self._spawn(node, outlive=self.state.owner is None)

    def stop(self) -> None:
        """Stop everything and delete the sandbox's data; may be called again."""
        wait_for_starts()
        stop_sandbox(self.state)

    def _node(self, key: Key) -> NodeT:
        known = self._declared
        if key not in known:
            raise SandboxError(
                f"{self.noun} {key} is not declared in this sandbox: it has {', '.join(map(str, known))}"
            )
        return known[key]

    def _process(self, key: Key) -> SandboxProcess:
        node = self._node(key)
        try:
            return self.state.processes[node.id]
        except KeyError:
            raise SandboxError(f"{self.noun} {key} was not started here: start it first") from None

    def _dismiss(self, key: Key) -> SandboxProcess:
        """The process of a node that is stopped on purpose; its end is no longer an error."""
        process = self._process(key)
        self._dismissed.add(self._node(key).id)
        return process

    def _spawn(self, node: NodeT, *, outlive: bool) -> None:
        """Start a node's process in its folder; without `outlive` it dies with ours."""
        home = self.state.node_folder(node.id)

        def keep(process: SandboxProcess) -> None:
            self._save(self.state.with_process(node.id, process))

        spawn(self._command(node), home, home / "out.log", outlive=outlive, keep=keep)

    def _save(self, state: State) -> None:
        self.state = state
        state.write()

    @contextmanager
    def _starting(self, *, detached: bool) -> Iterator[None]:
        """Make the folder, start the nodes, and wait until they serve; remove everything on an error."""
        try:
            self.state.folder.mkdir(parents=True)
            self.state.write()
            yield
            self.wait_until_serving()
            if detached:
                self._save(replace(self.state, owner=None))
        except BaseException:
            self.stop()
            raise

    def _expected(self) -> list[tuple[Key, NodeT]]:
        """Brokers that were started and not killed since."""
        started = self.state.processes.keys() - self._dismissed
        known = self._declared.items()
        return [(key, node) for key, node in known if node.role == "broker" and node.id in started]

    def _wait(self, missing: Callable[[], str], timeout_seconds: float | None) -> None:
        """Wait until nothing is missing (an empty text); errors as in `wait_until_serving`."""
        patience = self.ready_seconds if timeout_seconds is None else timeout_seconds
        deadline = time.monotonic() + patience
        while waiting := missing():
            self.require_running()
            if time.monotonic() > deadline:
                raise SandboxError(
                    f"{waiting} after {patience:g} s: close what else keeps the processors busy{self.remedy}"
                )
            time.sleep(0.1)

    def _nodes(self) -> Collection[NodeT]:
        """All declared processes, with those that the brokers depend on."""
        return self._declared.values()

    def require_running(self) -> None:
        """Make sure that no node has ended by itself.

        Raises
        ------
        SandboxError
            If one has; with what its log says.
        """
        for node in self._nodes():
            process = self.state.processes.get(node.id)
            if process is not None and node.id not in self._dismissed and not running(process):
                raise SandboxError(
                    exit_reason(self._title(node), self.state.node_folder(node.id) / "out.log")
                )


def not_serving(brokers: Collection[object]) -> str:
    """A text that names the brokers that do not serve yet; empty if all serve."""
    return f"brokers {', '.join(map(str, brokers))} do not serve" if brokers else ""


def place_for(what: str, memory_mb: int, folder: Path | None) -> Path:
    """A folder for a new sandbox, by default an unused one; the machine must have the resources.

    Leftovers of sandboxes whose owners ended without stopping them are cleared away. Errors as in
    `require_resources`, which takes `what` and `memory_mb`.
    """
    stop_abandoned()
    folder = folder or sandboxes_folder() / f"run-{os.getpid()}-{secrets.token_hex(3)}"
    require_resources(what, memory_mb, folder)
    return folder
