"""Texts and pictures of the balancer `replicas`."""
