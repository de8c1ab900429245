"""Contract suites: what every implementation of a kind of extension is tested for.

A module a kind, each with a class of pytest tests that an implementation's tests inherit.
"""

from __future__ import annotations

try:
    import pytest as pytest
except ImportError as error:
    raise ImportError(
        "the contract suites are tests for pytest, which is not installed: pip install pytest"
    ) from error
