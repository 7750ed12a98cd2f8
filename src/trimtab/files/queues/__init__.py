"""Reports of queues, weights that are published for them, snapshots and plans in files."""
