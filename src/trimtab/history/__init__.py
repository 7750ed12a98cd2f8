"""Replay of recorded load under other strategies and settings."""
