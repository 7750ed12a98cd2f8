"""Planners of the level `queues`: weights to publish, and what the scheduler would do."""
