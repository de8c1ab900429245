"""Backups of a home: a folder with a consistent cut of what was measured, and its way back."""
