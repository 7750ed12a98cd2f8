"""Planners of the balancer `queues`: weights to publish, and predicted actions of the scheduler."""
