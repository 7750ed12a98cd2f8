"""The toy balancer `balls`: balls over boxes."""
