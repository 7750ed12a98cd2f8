"""Texts and pictures of the balancer `bundles`."""
