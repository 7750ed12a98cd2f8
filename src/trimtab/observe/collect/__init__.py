"""Agentless collectors: what a cluster says about itself, as raw samples."""
