"""How the numeric cores of all levels are compiled, and where the compiled code is kept.

Numba keeps the machine code of a function until that function's own file changes, and does not notice that
another file, from which code was inlined, did. So the folder is named after a digest of all such sources
together.
"""

import os
from hashlib import sha256
from pathlib import Path

import numba
from numba.core import config

FOLDER = "trimtab-plan"


def _digest() -> str:
    texts = [source.read_bytes() for source in sorted(Path(__file__).parent.parent.rglob("*.py"))]
    kernels = [text for text in texts if b"search.compiled" in text or b"numba.njit" in text]
    parts = [sha256(text).digest() for text in kernels]
    return sha256(b"".join(parts) + numba.__version__.encode()).hexdigest()[:16]


def _folder() -> str:
    """Below `NUMBA_CACHE_DIR` if set, else beside the sources if these may be written, else wherever numba
    likes.
    """
    named = os.environ.get("NUMBA_CACHE_DIR")
    beside = Path(__file__).parent / "__pycache__"
    if not named and not os.access(beside if beside.exists() else beside.parent, os.W_OK):
        return ""
    return str((Path(named) if named else beside) / f"{FOLDER}-{_digest()}")


config.CACHE_DIR = _folder()  # type: ignore[attr-defined]

leaf = numba.njit(nogil=True, error_model="numpy", _nrt=False)  # type: ignore[call-overload]
"""For functions that compiled code calls and that make no arrays: without counting references, which for a
tuple of arrays costs more than the arithmetic (0.8 of 1.0 microseconds a call, measured)."""

inner = numba.njit(nogil=True, error_model="numpy")
"""For functions that compiled code calls and that make arrays."""

entry = numba.njit(nogil=True, error_model="numpy", cache=True)
"""For functions that Python calls; the fewer, the quicker they are all there again."""
