"""Replay of recorded load under other settings."""
