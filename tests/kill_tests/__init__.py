"""Processes killed at random moments under clients at work, and what was promised checked afterwards."""
