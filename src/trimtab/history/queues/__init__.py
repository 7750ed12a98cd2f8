"""The level `queues`: recorded arrivals through dispatch policies, in virtual time."""
