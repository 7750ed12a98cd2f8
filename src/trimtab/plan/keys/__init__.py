"""Plans of the level `keys`: routing tables."""
