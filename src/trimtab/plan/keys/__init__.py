"""Plans of the balancer `keys`: routing tables."""
