"""Planners of the balancer `queues`: weights to publish, and what the scheduler would do."""
