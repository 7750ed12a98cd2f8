"""A journal whose process dies right before or right after a given write of a state.

As a program it runs trimtab so, and the death is a real SIGKILL: `python tests/support/mortal.py 7- apply
...` dies right before the seventh write, `7` right after it, and an empty word never.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from trimtab.act.executor import StateCodecs
from trimtab.act.journal import ConnectDatabase, Journal, connect_database


class MortalJournal(Journal):
    """Such a journal; `writes` counts the writes of states so far."""

    def __init__(
        self,
        path: Path,
        codecs: StateCodecs,
        dies_at: int | None,
        before: bool,
        die: Callable[[], NoReturn],
        connect: ConnectDatabase = connect_database,
    ) -> None:
        self.writes = 0
        self._of_state = False
        self._dies_at = dies_at
        self._before = before
        self._die = die
        super().__init__(path, codecs, connect)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """A transaction; one that writes a state may be the last."""
        self.writes += self._of_state
        due = self._of_state and self.writes == self._dies_at
        if due and self._before:
            self._die()
        with super()._transaction():
            yield
        if due:
            self._die()

    def create(self, *arguments: Any) -> int:
        """See `Journal.create`."""
        with self._writing_a_state():
            return super().create(*arguments)

    def write(self, *arguments: Any) -> bool:
        """See `Journal.write`."""
        with self._writing_a_state():
            return super().write(*arguments)

    @contextmanager
    def _writing_a_state(self) -> Iterator[None]:
        self._of_state = True
        yield
        self._of_state = False


def kill_at(word: str) -> None:
    """Let every store of executions in this process die so."""
    from trimtab.act import journal

    def mortal(path: Path, codecs: StateCodecs, connect: ConnectDatabase = connect_database) -> Journal:
        dies_at = int(word.removesuffix("-")) if word else None
        return MortalJournal(path, codecs, dies_at, word.endswith("-"), _killed, connect)

    journal.Journal = mortal  # type: ignore[assignment, misc]


def _killed() -> NoReturn:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("SIGKILL cannot be survived")


if __name__ == "__main__":
    kill_at(sys.argv[1])
    from trimtab.cli.app import main

    main(sys.argv[2:])
