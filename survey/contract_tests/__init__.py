"""Contract suites: the tests that every implementation of an extension has to pass.

A module a kind, each with a class of pytest tests that an implementation's tests inherit.
"""

from __future__ import annotations

try:
    import pytest as pytest
except ImportError as error:
    raise ImportError(
        "the contract suites are tests for pytest, which is not installed: pip install pytest"
    ) from error
