"""Readers of strangers' bytes under random bytes: targets, seeds, a campaign and its replay."""
