"""Paths from a network's input to each value of a tensor: how many, and what is on them."""
