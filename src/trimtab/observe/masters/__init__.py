"""The pipeline of the level `masters`: samples of nodes to loads of groups and nodes, and snapshots."""
