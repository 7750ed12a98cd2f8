"""Plan to receipt: the only room that changes a cluster."""
