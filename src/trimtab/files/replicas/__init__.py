"""Open formats of the level `replicas`: its snapshots, plans and settings."""
