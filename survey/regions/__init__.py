"""Linear regions along a segment: where a piecewise linear network bends."""
