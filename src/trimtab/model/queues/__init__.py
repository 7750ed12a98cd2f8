"""Values of the balancer `queues`: queues and classes at a moment, and plans of what to publish."""
