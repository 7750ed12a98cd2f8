"""Open formats of the balancer `replicas`: its snapshots, plans and settings."""
