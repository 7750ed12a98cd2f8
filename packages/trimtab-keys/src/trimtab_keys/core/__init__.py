"""Decisions at each record: where it goes, how each key's order is kept. No clock, no I/O."""
