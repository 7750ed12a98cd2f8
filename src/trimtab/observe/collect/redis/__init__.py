"""Collectors of a server of queues."""
