"""An asynchronous producer and consumer, and the status of groups."""
