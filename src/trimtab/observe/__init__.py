"""Telemetry to snapshot: the lake, the pipeline of each balancer, and what collectors share."""
