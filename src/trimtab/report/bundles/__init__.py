"""Texts and pictures of the level `bundles`."""
