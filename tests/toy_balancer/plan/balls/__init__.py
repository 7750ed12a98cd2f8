"""The toy level `balls`: balls over boxes."""
