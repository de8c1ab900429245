"""Linearisation with training: networks whose ReLUs a penalty turns into linear channels."""
