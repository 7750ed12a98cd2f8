"""Decisions at each message: which queue it goes to, and what moves between queues. No clock, no I/O."""
