"""Linear regions along a segment: where a piecewise linear network bends."""

#: The greatest side of a square image that is traced: above it tracing does not finish.
MOST_SIDE = 64
