"""Ranges of the names and numbers that stand in files, as parts of the types of fields.

Planners may rely on them: whatever reads a file has refused values beyond them.
"""

from typing import Annotated

from msgspec import Meta

Order = Annotated[int, Meta(ge=1)]
"""A place in the order of a plan's moves, from 1."""

Amount = Annotated[float, Meta(ge=0)]
"""A load, a capacity, or a measure."""

Hash = Annotated[int, Meta(ge=0, le=0xFFFFFFFF)]
"""A place in the hash range of a namespace of Pulsar."""

Limit = Annotated[float, Meta(ge=0, extra_json_schema={"exclusiveMinimum": 0})]
"""A capacity; whoever reads a file refuses 0 with the remedy."""

Bundle = Annotated[
    str,
    Meta(extra_json_schema={"pattern": "^[^/]+/[^/]+(/[^/]+)?/0x[0-9a-f]{8}_0x[0-9a-f]{8}$"}, min_length=1),
]
"""The key of a bundle of Pulsar: `tenant/namespace/0xLOW_0xHIGH`."""
