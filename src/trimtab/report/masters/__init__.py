"""The words of the level `masters`."""
