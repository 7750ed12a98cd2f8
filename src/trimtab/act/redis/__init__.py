"""A server of queues to act on."""
