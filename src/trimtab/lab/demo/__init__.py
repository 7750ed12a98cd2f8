"""A whole turn on a cluster of our own: load it, watch it, level it, and measure what that changed."""
