"""One root error, and the errors that data planes and control plane have in common.

Every message names its subject, the value found, the limit or form expected, and the remedy, so that it can
be shown to an operator as it is.
"""

import difflib
from collections.abc import Iterable


class TrimtabError(Exception):
    """The root of the errors that end a command; shown without a traceback.

    Attributes
    ----------
    exit_code
        What the command line returns; 2 is bad input or settings, 1 is anything that failed while acting or
        observing.
    """

    exit_code = 1


class InputError(TrimtabError):
    """A file or value that a user handed over is malformed or contradicts itself."""

    exit_code = 2


class SettingsError(InputError):
    """A setting is unknown, of the wrong type or out of range."""


class ConnectError(TrimtabError):
    """A cluster cannot be reached, or refuses us."""


class NodeError(TrimtabError):
    """A node of a cluster of ours cannot start or go on."""


def did_you_mean(name: str, known: Iterable[str], otherwise: str, before: str = "") -> str:
    """The nearest of the known names, after `before`, as a question; other words where none is near."""
    # A number near another one is no slip of spelling.
    close = [] if name.isdigit() else difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {before}{close[0]}?" if close else otherwise
