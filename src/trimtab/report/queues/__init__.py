"""Texts and pictures of the balancer `queues`."""
