"""Snapshot to plan: pure numbers, deterministic."""
