"""Acting on the balancer `keys`: routing tables are published, partitions added."""
