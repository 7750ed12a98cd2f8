"""A sandbox on disk: a folder with `sandbox.json`, by which any process can read its state and stop it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Generic, Self, TypeVar

import msgspec

from trimtab.files.machine import state_folder
from trimtab.lab.sandbox.cgroups import remove
from trimtab.lab.sandbox.processes import SandboxProcess, kill
from trimtab.model.errors import SandboxError

T = TypeVar("T")


def encode(value: object) -> dict[str, object]:
    """A dataclass as a JSON object; paths become text."""
    document: dict[str, object] = msgspec.to_builtins(value, enc_hook=str, str_keys=True)
    return document


def decode(document: object, kind: type[T]) -> T:
    """The dataclass that `encode` wrote; unknown keys are ignored.

    Raises
    ------
    ValueError
        If the document does not have its form.
    """
    return msgspec.convert(document, kind, dec_hook=lambda hint, text: hint(text), str_keys=True)


@dataclass(frozen=True)
class SandboxJsonFormat(Generic[T]):
    """A JSON file of the user, independent of any sandbox.

    Parameters
    ----------
    kind
        The dataclass in it.
    name
        Stands in the file as its `format`.
    noun, remedy
        A file of another kind is refused by: this is not NOUN; REMEDY.
    """

    kind: type[T]
    name: str
    noun: str
    remedy: str

    def text(self, value: T) -> str:
        """The value as a document."""
        return json.dumps({"format": self.name} | encode(value), indent=1)

    def parse(self, text: str) -> T:
        """The value of a document.

        Raises
        ------
        SandboxError
            If it is not one.
        """
        try:
            document = json.loads(text)
            if document.pop("format") != self.name:
                raise ValueError(f"its format is not {self.name}")
            value = decode(document, self.kind)
            if unknown := document.keys() - encode(value).keys():
                raise ValueError(f"it has an unknown key {min(unknown)!r}")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise SandboxError(f"this is not {self.noun} ({error}): {self.remedy}") from error
        return value

    def read(self, path: Path) -> T:
        """The value of a file; errors as in `parse` with the file's name, and one if it cannot be read."""
        try:
            return self.parse(path.read_text(encoding="utf-8"))
        except OSError as error:
            raise SandboxError(
                f"{path} cannot be read: {error.strerror}; it is not {self.noun}: {self.remedy}"
            ) from error
        except SandboxError as error:
            raise SandboxError(f"{path}: {error}") from error


FORMAT = "trimtab/sandbox/2"
FILE = "sandbox.json"


@dataclass(frozen=True, kw_only=True)
class SandboxState:
    """The state that sandboxes of all systems share: enough to check and to stop one.

    Parameters
    ----------
    folder
        Everything of the sandbox lies below it.
    cluster_id
        Tells this cluster from one that had the same name before.
    owner
        The process with which the sandbox ends; None once it is detached.
    processes
        What was started last for each node id, alive or not.
    control_groups
        Folders of the system's control groups that were made for it, removed with it.
    """

    system: ClassVar[str] = ""
    restarts: ClassVar[bool] = False
    """Whether its processes can be started again on their data once none of them runs."""

    folder: Path
    cluster_id: str
    owner: SandboxProcess | None
    processes: dict[int, SandboxProcess] = field(default_factory=dict)
    control_groups: tuple[Path, ...] = ()

    @property
    def alive(self) -> dict[int, SandboxProcess]:
        """The nodes that run, by id."""
        return {node: process for node, process in self.processes.items() if process.alive}

    @property
    def left(self) -> bool:
        """True if its owner ended without stopping it."""
        return self.owner is not None and not self.owner.alive

    @property
    def stale(self) -> bool:
        """True if nothing of it runs, or its owner ended without stopping it."""
        return not self.alive or self.left

    def with_process(self, node: int, process: SandboxProcess) -> Self:
        """The same sandbox with one node started anew."""
        return replace(self, processes={**self.processes, node: process})

    def write(self) -> None:
        """Save the state atomically, readable by its owner only, since it may contain a password."""
        document = encode(self) | {"format": FORMAT, "system": self.system}
        scratch = self.folder / f".{FILE}.{os.getpid()}"
        with open(
            os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
        ) as file:
            json.dump(document, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        scratch.replace(self.folder / FILE)

    def node_folder(self, node: int) -> Path:
        """The folder of one node: configuration, data, output."""
        return self.folder / f"node-{node}"


State = TypeVar("State", bound=SandboxState)


def sandboxes_folder() -> Path:
    """The folder that holds those of all sandboxes."""
    return state_folder() / "sandbox"


def read_state(folder: Path, kind: type[State]) -> State | None:
    """The sandbox of a folder, or None where there is none.

    Parameters
    ----------
    folder
        Of the sandbox.
    kind
        The state of a system; `SandboxState` itself for one of any system.

    Raises
    ------
    SandboxError
        If the file is there but not one of ours, or of another system.
    """
    file = folder / FILE
    try:
        document = json.loads(file.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ValueError(f"format {document['format']!r} instead of {FORMAT!r}")
        if kind.system not in ("", document["system"]):
            raise SandboxError(
                f"the sandbox {folder.name} is one of {document['system']}, not of {kind.system}: choose "
                "another name"
            )
        return decode(document | {"folder": str(folder)}, kind)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise SandboxError(f"{file} cannot be read ({error}): let this user read its folder") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise SandboxError(
            f"{file} is not a sandbox of this trimtab ({error}): delete the folder {folder}"
        ) from error


def stop_sandbox(state: SandboxState) -> None:
    """Stop the nodes of a sandbox, whichever process started them, and delete its folder.

    Nodes are killed, not asked: an orderly shutdown would write out data that is deleted right after.
    """
    kill(state.processes.values())
    remove(state.control_groups)
    shutil.rmtree(state.folder, ignore_errors=True)


def stop_abandoned() -> None:
    """Remove sandboxes whose owners ended without stopping them."""
    for folder in sorted(sandboxes_folder().glob("*/")):
        with contextlib.suppress(SandboxError):
            state = read_state(folder, SandboxState)
            if state is not None and state.owner is not None and not state.owner.alive:
                stop_sandbox(state)
