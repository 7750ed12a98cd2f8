"""Words for the balancer `keys`."""
