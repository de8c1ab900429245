"""Files of weights: read without running code, and loaded strictly into a network."""
