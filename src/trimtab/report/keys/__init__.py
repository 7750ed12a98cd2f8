"""Words for the level `keys`."""
