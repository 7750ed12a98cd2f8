"""Planners of the balancer `masters`: who is to be master of which group."""
