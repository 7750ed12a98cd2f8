"""Texts of the balancer `queues`."""
