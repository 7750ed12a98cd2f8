"""A whole turn on a cluster of our own: load it, watch it, balance it, and measure what that changed."""
