"""The transformations that all balancers share, and the runs that apply them: batch and stream."""
