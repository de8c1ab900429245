"""The API under ``/api/v1``: a module a noun, each with its ``router``."""
