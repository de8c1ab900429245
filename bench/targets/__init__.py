"""Figures of speed and memory beside their targets."""
