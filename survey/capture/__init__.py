"""A forward pass watched: activation calls, their axes, pooled values and counts."""
