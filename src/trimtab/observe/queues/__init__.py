"""The pipeline of the level `queues`."""
