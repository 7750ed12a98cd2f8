"""Values of the level `queues`: queues and classes at a moment, and plans of what to publish."""
