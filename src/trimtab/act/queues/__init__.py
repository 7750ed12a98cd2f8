"""Executions of the balancer `queues`: publishing weights and settings."""
