"""Executions of the level `queues`: publishing weights and settings."""
