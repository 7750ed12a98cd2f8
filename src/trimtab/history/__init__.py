"""Replay of recorded load under other settings: nothing here yet."""
