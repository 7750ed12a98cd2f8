"""Decisions at each message or record, inside the process that it passes: pure, small, quick to import."""
