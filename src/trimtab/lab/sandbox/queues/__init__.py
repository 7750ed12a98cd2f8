"""A real server of queues on this machine: Valkey out of its wheel, or a Redis that is here."""
