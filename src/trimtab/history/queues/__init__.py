"""The balancer `queues`: recorded arrivals through dispatch policies, in virtual time."""
