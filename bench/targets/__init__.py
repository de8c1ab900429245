"""Every figure that has a target, beside it."""
