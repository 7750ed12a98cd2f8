"""Planners of the balancer `masters`: the master of each group."""
