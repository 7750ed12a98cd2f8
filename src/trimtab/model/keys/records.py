"""Recorded records of a topic: when each was sent, and with which key."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from trimtab.model.load import FloatArray


@dataclass(frozen=True, eq=False)
class KeyedRecords:
    """Records with a key, in the order in which they were sent.

    Attributes
    ----------
    at
        Shape (records,), seconds since 1970 or since any other beginning, ascending.
    which
        Shape (records,), places in `keys`.
    keys
        Different from one another, in the order of their bytes.
    keyless
        Records without a key that were left out: they may go anywhere.
    """

    at: FloatArray
    which: NDArray[np.int64]
    keys: tuple[bytes, ...]
    keyless: int = 0

    def __len__(self) -> int:
        return len(self.at)

    def between(self, since: float | None, until: float | None) -> KeyedRecords:
        """Those from `since` on and before `until`, in the units of `at`."""
        first = 0 if since is None else int(np.searchsorted(self.at, since))
        last = len(self) if until is None else int(np.searchsorted(self.at, until))
        part = slice(first, max(first, last))
        return replace(self, at=self.at[part], which=self.which[part])
