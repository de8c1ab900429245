"""The paper's printed numbers beside those of a home."""
