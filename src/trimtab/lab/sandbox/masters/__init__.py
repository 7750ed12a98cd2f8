"""A store of many groups on this machine: real node processes, a load, and what may befall them."""
