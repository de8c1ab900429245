"""Decoded images, kept so that every picture is decoded once."""
