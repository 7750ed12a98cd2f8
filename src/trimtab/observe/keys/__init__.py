"""The pipeline of balancer `keys`: the records of a topic themselves, and what its groups have committed."""
