"""The pipeline of the balancer `masters`: samples of nodes to loads of groups and nodes, and snapshots."""
