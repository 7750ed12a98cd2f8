"""The balancer `keys`: record keys over the partitions of a topic."""
