"""A terminal in which commands are typed one after another, as a reader of a page types them."""

import codecs
import os
import re
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

PATIENCE_SECONDS = 900.0
"""How long a busy machine may take for a command; costs nothing where it does not."""
QUESTION = "[y/N]: "

# bash becomes the leader of the terminal's session, so that Ctrl-C reaches what runs in it and nothing else.
_SHELL = (
    "import fcntl, os, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execvp('bash', ['bash', '--noprofile', '--norc', '--noediting', '-i'])"
)
_PROMPT = re.compile("\x1e(\\d+)\x1e")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]")


class Terminal:
    """One shell; `with` ends it and what still runs in it."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._side, inner = os.openpty()
        modes = termios.tcgetattr(inner)
        modes[3] &= ~termios.ECHO
        termios.tcsetattr(inner, termios.TCSANOW, modes)
        termios.tcsetwinsize(inner, (50, 240))
        self._shell = subprocess.Popen(
            [sys.executable, "-c", _SHELL],
            cwd=folder,
            env={**environment, "PS1": r"\036$?\036", "PS2": "", "TERM": "xterm", "HISTFILE": ""},
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)
        self._seen = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._wait_for(_PROMPT, "a shell")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Who closes the window hangs up on the shell and on what runs in it. (Ctrl-C and a typed `exit` may
        # come too soon after one another for bash, which then drops both.)
        os.close(self._side)
        try:
            self._shell.wait(60)
        except subprocess.TimeoutExpired:
            os.killpg(self._shell.pid, signal.SIGKILL)
            self._shell.wait()

    def run(self, command: str, *, yes: bool = False) -> tuple[int, str]:
        """Type a command and wait for its end: exit code, and what it printed.

        Parameters
        ----------
        yes
            Answer its question with y; a question that is not expected is left to fail by time.
        """
        self.begin(command)
        if yes:
            self._wait_for(re.compile(re.escape(QUESTION) + "$"), command, or_prompt=True)
            if self._seen.endswith(QUESTION):
                self._type("y")
        return self.end(command)

    def begin(self, command: str) -> None:
        """Type a command."""
        self._seen = ""
        self._type(command)

    def wait_for(self, words: str, command: str) -> str:
        """Wait until a command has printed something; all that it has printed."""
        self._wait_for(re.compile(re.escape(words)), command)
        return _plain(self._seen)

    def interrupt(self, command: str) -> tuple[int, str]:
        """Press Ctrl-C, and wait for the command's end."""
        os.write(self._side, b"\x03")
        return self.end(command)

    def end(self, command: str) -> tuple[int, str]:
        """Wait for the end of what was begun: exit code, and what it printed."""
        self._wait_for(_PROMPT, command)
        found = _PROMPT.search(self._seen)
        assert found is not None
        return int(found[1]), _plain(self._seen[: found.start()])

    def _type(self, text: str) -> None:
        os.write(self._side, text.encode() + b"\n")

    def _wait_for(self, pattern: re.Pattern[str], command: str, *, or_prompt: bool = False) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not pattern.search(self._seen):
            if _PROMPT.search(self._seen):
                assert or_prompt, f"{command} ended without {pattern.pattern}:\n{_plain(self._seen)}"
                return
            left = deadline - time.monotonic()
            assert left > 0, f"{command} did not come so far within {PATIENCE_SECONDS} s:\n{self._seen}"
            if select.select([self._side], [], [], min(left, 1.0))[0]:
                self._seen += self._decoder.decode(os.read(self._side, 65536))


def _plain(text: str) -> str:
    """Text as it stands on the screen at the end: without colours, and lines as they were written last."""
    lines = _CONTROL.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rpartition("\r")[2] for line in lines)
