"""A laboratory on one machine: real clusters, simulated worlds, and the demos that use them."""
