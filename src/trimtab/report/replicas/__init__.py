"""Texts and pictures of the level `replicas`."""
