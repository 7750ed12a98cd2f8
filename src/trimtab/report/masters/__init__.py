"""Texts of the balancer `masters`."""
