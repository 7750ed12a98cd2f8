"""Real clusters on one machine, to try and test."""
