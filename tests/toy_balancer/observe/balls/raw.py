"""Columns of the raw samples of boxes."""

from __future__ import annotations

from trimtab.observe.lake.columns import RawSchema, of_raw

COLUMNS = (
    ("cluster", "string"),
    ("tick", "timestamp"),
    ("received_at", "timestamp"),
    ("sampled_at", "timestamp"),
    ("kind", "string"),
    ("box", "string"),
    ("ball", "string"),
    ("weight", "double"),
    ("capacity", "double"),
)
FORM = RawSchema(of_raw(COLUMNS), ("cluster", "tick", "kind", "box", "ball"), ("box", "ball"), ("weight",))
