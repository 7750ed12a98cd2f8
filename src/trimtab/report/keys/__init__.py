"""Texts and pictures of the balancer `keys`."""
