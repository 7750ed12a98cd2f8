"""Which level's codec reads and writes an execution in the journal."""

from typing import Final

from trimtab.act.bundles import codec as bundles
from trimtab.act.execution.codec import Codec
from trimtab.act.replicas import codec as replicas
from trimtab.model.errors import ActError

LEVEL: Final = "level"
"""Key of an execution's head; executions written before there was a second level have none: `replicas`."""

CODECS: Final[dict[str, Codec]] = {"replicas": replicas, "bundles": bundles}


def codec_of(level: str) -> Codec:
    """The codec of a level.

    Raises
    ------
    ActError
        If this trimtab knows no such level.
    """
    if level not in CODECS:
        raise ActError(
            f"the execution is of level {level}, this trimtab carries out {', '.join(CODECS)}: use the "
            "trimtab that began it"
        )
    return CODECS[level]
