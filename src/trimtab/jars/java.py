"""The Java of this machine."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from trimtab.model.errors import JarsError

OLDEST_JAVA = 17


@dataclass(frozen=True)
class Java:
    """A Java installation: its `java` program and version text (`17.0.15`)."""

    program: Path
    version: str

    @property
    def compiler(self) -> Path | None:
        """The `javac` beside `java`; None where only the runtime is installed."""
        program = self.program.resolve().parent / "javac"
        return program if program.exists() else None

    @property
    def keytool(self) -> Path:
        """The key and certificate tool beside `java`."""
        return self.program.resolve().parent / "keytool"


def find_java(what: str) -> Java:
    """The Java of `JAVA_HOME`, else the one on the path; `what` is to be run by it, as errors say.

    Raises
    ------
    JarsError
        If there is none, it does not run, or it is older than `OLDEST_JAVA`.
    """
    needed = f"Java {OLDEST_JAVA} or newer is needed to run {what}"
    home = os.environ.get("JAVA_HOME")
    name = str(Path(home) / "bin" / "java") if home else "java"
    found = shutil.which(name)
    if found is None:
        raise JarsError(
            f"{needed}, and there is no {name!r}: install it (on Debian and Ubuntu: apt install "
            "openjdk-17-jre-headless) or set JAVA_HOME"
        )
    try:
        answer = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise JarsError(
            f"{needed}, and {found} does not run ({error}): set JAVA_HOME to one that does"
        ) from None
    version = parse_version(answer.stderr + answer.stdout)
    if version is None:
        raise JarsError(f"{needed}, and {found} does not answer -version like a Java: set JAVA_HOME to one")
    if major(version) < OLDEST_JAVA:
        raise JarsError(
            f"{needed}, and {found} is Java {version}: install a newer one or set JAVA_HOME to it"
        )
    return Java(Path(found), version)


def parse_version(answer: str) -> str | None:
    """The version in the answer of `java -version`, or None."""
    match = re.search(r'version "([^"]+)"', answer)
    return match.group(1) if match else None


def major(version: str) -> int:
    """17 of `17.0.15`, 8 of `1.8.0_392`, 25 of `25-ea`."""
    numbers = [int(number) for number in re.findall(r"\d+", version)]
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]
