"""Telemetry to snapshot: collectors, the lake, and the only room that imports Spark."""
